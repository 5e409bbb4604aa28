"""Control flow of version 1: which nodes make a loop, and which a choice (TensorFlow's control_flow_ops)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from sterna.errors import SternaError, error
from sterna.frontends.tensorflow.model import Node, tensor_of

_ENTER = ("Enter", "RefEnter")
MERGES = ("Merge", "RefMerge")
SWITCHES = ("Switch", "RefSwitch")
EXITS = ("Exit", "RefExit")
NEXT = ("NextIteration", "RefNextIteration")
FORWARDED = ("Identity", "LoopCond", "StopGradient")
#: (name of the node whose result decides, position) and whether it holds.
Tag = tuple[tuple[str, int], bool]


@dataclass
class Frame:
    """A loop: its variables, and the node that says whether it goes on.

    Args:
        enters: all that comes from outside; merges: the variables, with what they begin with and go on with.
    """

    name: str
    condition: str = ""
    enters: list[str] = field(default_factory=list)
    merges: dict[str, tuple[str, str]] = field(default_factory=dict)
    switches: dict[str, str] = field(default_factory=dict)
    exits: dict[str, str] = field(default_factory=dict)


class Flow:
    """What `Switch`, `Merge` and their like make of a graph.

    Raises:
        SternaError: E0103, they do not fit together.
    """

    def __init__(self, nodes: Mapping[str, Node]):
        self.nodes = nodes
        self.frames: dict[str, Frame] = {}
        self.frame_of: dict[str, str] = {}  # of merges and exits
        self._tags: dict[str, frozenset[Tag]] = {}
        self._before: dict[str, set[str]] = {}
        if any(node.op in (*_ENTER, *MERGES) for node in nodes.values()):
            self._find()

    def _find(self) -> None:
        for node in self.nodes.values():
            if node.op in _ENTER:
                name = _text(node.attributes.get("frame_name"))
                self.frames.setdefault(name, Frame(name)).enters.append(node.name)
        for node in self.nodes.values():
            if node.op not in MERGES:
                continue
            sources = [(text, self._real(text)) for text in node.inputs]
            ahead = [text for text, found in sources if found is not None and found.op in NEXT]
            first = [(text, found) for text, found in sources if found is not None and found.op in _ENTER]
            if not ahead:
                continue
            if len(ahead) != 1 or len(first) != 1 or first[0][1] is None:
                raise error("E0103", f'the loop variable "{node.name}" has no beginning')
            frame = self.frames[_text(first[0][1].attributes.get("frame_name"))]
            frame.merges[node.name] = (first[0][0], ahead[0])
            self.frame_of[node.name] = frame.name
        for node in self.nodes.values():
            if node.op in SWITCHES and len(node.inputs) == 2:
                merge = self.frame_of.get(tensor_of(node.inputs[0])[0])
                decider = self.nodes.get(tensor_of(node.inputs[1])[0])
                if merge is not None and decider is not None and decider.op == "LoopCond":
                    frame = self.frames[merge]
                    frame.switches[node.name] = tensor_of(node.inputs[0])[0]
                    frame.condition = decider.name
        for node in self.nodes.values():
            if node.op in EXITS and node.inputs:
                switch = tensor_of(node.inputs[0])[0]
                for frame in self.frames.values():
                    if switch in frame.switches:
                        frame.exits[node.name] = frame.switches[switch]
                        self.frame_of[node.name] = frame.name

    def _real(self, text: str) -> Node | None:
        return self.nodes.get(tensor_of(text)[0])

    # ---------------------------------------------------------------- choices
    def decider(self, merge: Node) -> tuple[tuple[str, int], str, str]:
        """What decides between the operands of a Merge: the tensor, the operand where it holds, and the other one.

        Raises:
            SternaError: E0113, nothing does.
        """
        if len(merge.inputs) != 2:
            raise error("E0113", f"Merge of {len(merge.inputs)} operands is not supported")
        one, two = (self.tags(tensor_of(text)[0], tensor_of(text)[1]) for text in merge.inputs)
        for (tensor, holds), there in ((tag, (tag[0], not tag[1]) in two) for tag in sorted(one)):
            if there:
                return (tensor, *(merge.inputs if holds else merge.inputs[::-1]))
        for tags, first in ((one, True), (two, False)):
            alone = sorted(tags - (two if first else one))
            if len(alone) == 1:
                tensor, holds = alone[0]
                return (tensor, *(merge.inputs if holds is first else merge.inputs[::-1]))
        raise error("E0113", f'nothing says which operand "{merge.name}" takes, which is not supported')

    def decider_or_none(self, merge: Node) -> tuple[str, int] | None:
        """The tensor that decides, or None where none does."""
        try:
            return self.decider(merge)[0]
        except SternaError:
            return None

    def between(self, merges: Sequence[Node], needed: Set[str]) -> bool:
        """Whether another choice may stand between Merges: one of them needs its results, and its others need one."""
        own = {merge.name for merge in merges}
        others = [node for name, node in self.nodes.items() if node.op in MERGES and name in needed - own]
        before = {self.decider_or_none(m) for m in others if any(self.reaches(one, m) for one in merges)}
        after = {self.decider_or_none(m) for m in others if any(self.reaches(m, one) for one in merges)}
        return bool((before & after) - {None})

    def reaches(self, node: Node, other: Node) -> bool:
        """Whether a node needs another one, directly or not."""
        if node.name not in self._before:
            seen, stack = set[str](), names_of(node.inputs)
            while stack:
                name = stack.pop()
                if name not in seen and name in self.nodes:
                    seen.add(name)
                    stack += names_of(self.nodes[name].inputs)
            self._before[node.name] = seen
        return other.name in self._before[node.name]

    def tags(self, name: str, position: int) -> frozenset[Tag]:
        """The decisions under which a node runs."""
        self._order(name)
        node = self.nodes.get(name)
        found = self._tags.get(name, frozenset())
        if node is not None and node.op in SWITCHES and len(node.inputs) == 2:
            found |= {(self.root(node.inputs[1]), bool(position))}
        return found

    def root(self, text: str) -> tuple[str, int]:
        """The tensor behind others that only hand it on."""
        name, position = tensor_of(text)
        for _ in range(32):
            node = self.nodes.get(name)
            if node is None or node.op not in FORWARDED or not node.inputs:
                break
            name, position = tensor_of(node.inputs[0])
        return name, position

    def _order(self, name: str) -> None:
        stack: list[tuple[str, bool]] = [(name, False)]
        open_: set[str] = set()
        while stack:
            at, done = stack.pop()
            node = self.nodes.get(at)
            if node is None or at in self._tags:
                continue
            before = [tensor_of(text) for text in (*node.inputs, *node.control)]
            if node.op in MERGES and node.name in self.frame_of:
                before = before[:1]
            if not done:
                if at in open_:
                    continue
                open_.add(at)
                stack.append((at, True))
                stack += [(other, False) for other, _ in before if other not in self._tags]
                continue
            sets = [self._with(other, position) for other, position in before]
            if node.op in MERGES:
                self._tags[at] = frozenset.intersection(*sets) if sets else frozenset()
            else:
                self._tags[at] = frozenset().union(*sets)

    def _with(self, name: str, position: int) -> frozenset[Tag]:
        node = self.nodes.get(name)
        found = self._tags.get(name, frozenset())
        if node is not None and node.op in SWITCHES and len(node.inputs) == 2:
            found |= {(self.root(node.inputs[1]), bool(position))}
        return found

    def boundary(self, text: str, decider: tuple[str, int]) -> dict[str, Node]:
        """The Switches by that decision that lie before a tensor."""
        found: dict[str, Node] = {}
        seen, stack = set[str](), [tensor_of(text)[0]]
        while stack:
            name = stack.pop()
            node = self.nodes.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            if node.op in SWITCHES and len(node.inputs) == 2 and self.root(node.inputs[1]) == decider:
                found[name] = node
                continue
            stack += [tensor_of(each)[0] for each in node.inputs]
        return found


def names_of(texts: Iterable[str]) -> list[str]:
    """The nodes of tensors."""
    return [tensor_of(text)[0] for text in texts]


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
