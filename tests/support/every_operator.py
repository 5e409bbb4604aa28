"""One graph of every declared operator on its own test cases: what a code generator or a machine must be able to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ir.sizes import BIND
from sterna.ops import Builder, Case, Operator, operators
from support.compiling import check, input_value


def without_float64(_operator: Operator, case: Case) -> bool:
    kinds = [str(a.dtype) for a in case.arrays() if a is not None]
    return "float64" not in (*kinds, *map(str, case.attributes.values()))


@lru_cache
def every_operator(
    accept: Callable[[Operator, Case], bool] | None = None, part: int = 0, parts: int = 1
) -> tuple[Graph, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(graph, inputs, outputs of the interpreter); output names say operator and case.

    Args:
        accept: leaves out cases.
        part: of so many equal parts.
    """
    # Sizes that the model computes are not for firmware, nor yet for JavaScript: tests/models/test_data_sizes.py
    chosen = [o for o in operators().values() if o.name != BIND]
    cases = [(o, n, c) for o in chosen for n, c in enumerate(o.cases) if accept is None or accept(o, c)]
    builder, inputs, outputs, names = Builder(), [], [], []
    feeds: dict[str, np.ndarray] = {}
    for operator, number, case in cases[part::parts]:
        operands = []
        for position, given in enumerate(case.arrays()):
            if given is None:
                operands.append(None)
                continue
            array = np.asarray(given)
            value = input_value(builder, array, f"{operator.name}_{number}_{position}")
            feeds[value.name] = array
            inputs.append(value)
            operands.append(value)
        results = builder.add_all(operator.name, *operands, **case.attributes)
        outputs += results
        names += [f"{operator.name}_{number}" + (f"_{n}" if len(results) > 1 else "") for n in range(len(results))]
    graph = Graph("operators", tuple(inputs), tuple(outputs), tuple(builder.nodes), tuple(names))
    return graph, feeds, interpret(graph, feeds)


def agree(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Every case, each with the tolerance of the type that it is summed in; all that differ are named."""
    wrong = []
    for name, want in expected.items():
        tolerance = 1e-2 if want.dtype.itemsize == 2 or _summed_in_parts(name) else 2e-5
        try:
            check({name: found[name]}, {name: want}, tolerance)
        except AssertionError as problem:
            wrong.append(f"{name}: {str(problem).strip()[:200]}")
    assert not wrong, "\n".join(wrong)


def _summed_in_parts(name: str) -> bool:
    """Whether the case adds parts of its sums in 16 bits, though its result has 32."""
    known = operators()
    operator = next(o for o in sorted(known, key=len, reverse=True) if name.startswith(f"{o}_"))
    number = int(name.removeprefix(f"{operator}_").split("_")[0])
    return bool(known[operator].cases[number].attributes.get("chunk"))
