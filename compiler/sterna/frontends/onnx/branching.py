"""`If` whose condition is only known at run time: an `if` of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.emitter import Emitter
from sterna.frontends.onnx.looping import has_fewer_dimensions
from sterna.frontends.onnx.nodes import Source
from sterna.frontends.onnx.sequences import Operand, TensorList
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.ops.control import branches

_BRANCHES = ("then_branch", "else_branch")
#: What a branch that is made for other sizes is refused with.
_UNFIT = "E0108"


@dataclass(frozen=True)
class Branching:
    """Translates an `If`.

    Args:
        condition: of one element.
        body: translates a branch, given the attribute that holds it.
        origin: says where the condition comes from, for messages.
    """

    source: Source
    condition: Value
    builder: Builder
    body: Callable[[str], Sequence[Operand]]
    origin: str

    def run(self) -> tuple[Value, ...]:
        """The results.

        A branch whose operators cannot take the sizes that are given is one that these sizes are not made for: it is
        replaced by a test that fails if the condition leads there.

        Raises:
            SternaError: E0107, the branches' results differ or are no tensors; whatever is wrong within them.
        """
        made: list[Graph | None] = []
        problems: list[Diagnostic] = []
        fatal = False
        for key in _BRANCHES:
            try:
                made.append(self._region(key))
            except SternaError as mistake:
                made.append(None)
                problems += mistake.diagnostics
                fatal |= set(mistake.codes) != {_UNFIT}
        then, otherwise = made
        if fatal or (then is None and otherwise is None):
            raise SternaError(problems)
        then = then or self._refused(otherwise, "then")
        otherwise = otherwise or self._refused(then, "else")
        if len(then.outputs) != len(otherwise.outputs):
            raise error("E0103", f"If whose branches give {len(then.outputs)} and {len(otherwise.outputs)} outputs")
        then, otherwise = self._of_rank(then, otherwise), self._of_rank(otherwise, then)
        for a, b in zip(then.outputs, otherwise.outputs, strict=True):
            if a.type != b.type:
                raise self._unknown(f"If whose branches give {a.type} and {b.type}")
        name = self.source.name
        results = tuple(Value(self.builder.name(f"{name}/result"), value.type) for value in then.outputs)
        self.builder.keep(branches(self.condition, (then, otherwise), results, (name,), name))
        return results

    def _region(self, key: str) -> Graph:
        with self.builder.region() as nodes:
            made = self.body(key)
        if any(isinstance(value, TensorList) for value in made):
            raise self._unknown("If whose branches give sequences or optionals")
        outputs = tuple(value for value in made if isinstance(value, Value))
        names = tuple(f"{n}" for n in range(len(outputs)))
        return Graph(f"{self.source.name}/{key.removesuffix('_branch')}", (), outputs, tuple(nodes), names)

    def _of_rank(self, branch: Graph, other: Graph) -> Graph:
        """A branch whose results of one element have as many dimensions as the other's: exporters write one number as
        a scalar here and as a vector there, and operators broadcast either to the same."""
        with self.builder.region(list(branch.nodes)) as nodes:
            t = Emitter(self.builder, "If", branch.name, (), lambda _: self.origin, (self.source.name,))
            outputs = tuple(
                t.reshape(a, b.shape) if has_fewer_dimensions(a, b) else a
                for a, b in zip(branch.outputs, other.outputs, strict=True)
            )
        return replace(branch, outputs=outputs, nodes=tuple(nodes))

    def _refused(self, other: Graph | None, branch: str) -> Graph:
        """In place of a branch, a test that fails; its results have the types of the other's."""
        assert other is not None
        name = f"{self.source.name}/{branch}"
        with self.builder.region() as nodes:
            t = Emitter(
                self.builder, "If", f"{name}_is_for_other_sizes", (), lambda _: self.origin, (self.source.name,)
            )
            condition = t.reshape(self.condition, ())
            led_here = t.op("logical_not", condition) if branch == "then" else condition
            zeros = (t.op("expand", t.scalar(0, value.dtype), shape=value.shape) for value in other.outputs)
            outputs = tuple(t.agree(zero, led_here) for zero in zeros)
        return replace(other, name=name, outputs=outputs, nodes=tuple(nodes))

    def _unknown(self, what: str) -> SternaError:
        return error("E0107", f"{what} needs a constant condition", f"input 0 {self.origin}")
