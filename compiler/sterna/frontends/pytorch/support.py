"""What can be said to be wrong with a program without translating it."""

from __future__ import annotations

from sterna.errors import Diagnostic
from sterna.frontends.custom import how_to_register
from sterna.frontends.pytorch import control
from sterna.frontends.pytorch.operators import functional, is_translated
from sterna.frontends.pytorch.program import NodeInfo, Program

_SHOWN = 4
#: What `torch.vmap` leaves in a program until its decompositions are run.
PREDISPATCH = "torch._functorch.predispatch."
DECOMPOSED = "save program.run_decompositions(), in which it stands no more"


def place_of(node: NodeInfo, position: int) -> str:
    """How messages call a node."""
    made = next((f' "{value}"' for kind, value in node.outputs if kind == "as_tensor"), "")
    return f"node {position}, {node.target}{made}"


def is_supported(target: str) -> bool:
    """Whether there is a translator of an operator."""
    return functional(target)[0] in control.OPERATORS or is_translated(target)


def problems_of(program: Program, where: str) -> list[Diagnostic]:
    """The operators that are not supported, one problem each."""
    found: dict[str, list[str]] = {}
    for position, node in enumerate(program.graph.all_nodes()):
        if not is_supported(node.target):
            found.setdefault(node.target, []).append(place_of(node, position))
    problems = []
    for op, places in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        count = f"{len(places)} node" + ("s" if len(places) > 1 else "")
        shown = "; ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        title = f"the operator {op} is not supported ({count})"
        fix = DECOMPOSED if op.startswith(PREDISPATCH) else how_to_register("pytorch", op)
        problems.append(Diagnostic("E0104", title, (f"{where}, {shown}",), fix))
    return problems
