"""MXNet's operators with graphs of their own, as MXNet 1.9.1 writes `foreach`, `while_loop` and `cond`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.mxnet_symbols import parameters

X, Y = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)


def node(op: str, name: str, *inputs: tuple[int, int], **attrs: Any) -> dict[str, Any]:
    texts = {key: str(value) for key, value in attrs.items()}
    return {"op": op, "name": name, "attrs": texts, "inputs": [[*place, 0] for place in inputs]}


def graph(*nodes: dict[str, Any], heads: list[tuple[int, int]] | None = None) -> dict[str, Any]:
    return {"nodes": list(nodes), "heads": [[*place, 0] for place in heads or [(len(nodes) - 1, 0)]]}


def variables(*names: str) -> list[dict[str, Any]]:
    return [node("null", name) for name in names]


CONDITION = graph(*variables("test"), node("_copy", "same", (0, 0)))
SUM = graph(*variables("x", "y"), node("elemwise_add", "sum", (0, 0), (1, 0)))
PRODUCT = graph(*variables("x", "y"), node("elemwise_mul", "product", (0, 0), (1, 0)))
BELOW = graph(
    *variables("x-0"), node("sum", "sum", (0, 0)), node("_lesser_scalar", "less", (1, 0), scalar=20)
)  # fmt: skip
GROWN = graph(
    *variables("y-0"), node("_mul_scalar", "twice", (0, 0), scalar=2), *variables("x-0"),
    node("_plus_scalar", "more", (2, 0), scalar=1), node("elemwise_add", "total", (0, 0), (2, 0)),
    heads=[(1, 0), (3, 0), (4, 0)],
)  # fmt: skip
RUNNING = graph(
    *variables("factor", "row", "state"), node("elemwise_mul", "scaled", (1, 0), (0, 0)),
    node("elemwise_add", "next", (3, 0), (2, 0)), heads=[(3, 0), (4, 0)],
)  # fmt: skip


def choice(**changed: Any) -> dict[str, Any]:
    said = {"cond_input_locs": [0], "then_input_locs": [1, 2], "else_input_locs": [1, 2], "num_outputs": 1, **changed}
    test = [node("sum", "s", (0, 0)), node("_greater_scalar", "over", (2, 0), scalar=0)]
    chosen = node("_cond", "c", (3, 0), (0, 0), (1, 0), **said)
    chosen["subgraphs"] = [CONDITION, SUM, PRODUCT]
    return graph(*variables("x", "y"), *test, chosen)


def loop(**changed: Any) -> dict[str, Any]:
    said = {
        "cond_input_locs": [0], "func_input_locs": [1, 0], "func_var_locs": [1, 0], "max_iterations": 4,
        "num_out_data": 1, "num_outputs": 3, **changed,
    }  # fmt: skip
    made = node("_while_loop", "w", (0, 0), (1, 0), **said)
    made["subgraphs"] = [BELOW, GROWN]
    return graph(*variables("x", "y"), made, heads=[(2, 0), (2, 1), (2, 2)])


def rows(**changed: Any) -> dict[str, Any]:
    said = {
        "in_data_locs": [1],
        "in_state_locs": [2],
        "remain_locs": [0],
        "num_out_data": 1,
        "num_outputs": 2,
        **changed,
    }
    made = node("_foreach", "f", (0, 0), (1, 0), (1, 0), **said)
    made["subgraphs"] = [RUNNING]
    return graph(*variables("x", "y"), made, heads=[(2, 0), (2, 1)])


def write(folder: Path, symbol: dict[str, Any]) -> Path:
    (folder / "model-symbol.json").write_text(json.dumps(symbol))
    (folder / "model-0000.params").write_bytes(parameters({"arg:unused": np.zeros(1, np.float32)}))
    return folder / "model-symbol.json"


@pytest.mark.parametrize("sign", [1, -1])
def test_one_of_two_graphs(tmp_path: Path, sign: int) -> None:
    graph_ = read_model(write(tmp_path, choice()), ReadOptions(shapes={"x": (2, 3), "y": (2, 3)}))
    (found,) = interpret(graph_, {"x": X * sign, "y": Y}).values()
    np.testing.assert_array_equal(found, X + Y if sign > 0 else -Y)


@pytest.mark.parametrize("start", [1, 2.5, 30, -1])
def test_loops_end_by_their_condition_or_their_limit(tmp_path: Path, start: float) -> None:
    graph_ = read_model(write(tmp_path, loop()), ReadOptions(shapes={"x": (2, 3), "y": (2, 3)}))
    n, total, listed = X * np.float32(start), Y, np.zeros((4, 2, 3), np.float32)
    for step in range(4):
        if n.sum() >= 20:
            break
        listed[step] = total * 2
        n, total = n + 1, total + n
    found = list(interpret(graph_, {"x": X * np.float32(start), "y": Y}).values())
    for ours, theirs in zip(found, (listed, n, total), strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.family("host-llvm")
def test_rows_one_after_the_other(tmp_path: Path) -> None:
    path, x = write(tmp_path, rows()), np.arange(12, dtype=np.float32).reshape(4, 3)
    factor = np.array([1, -1, 0.5], np.float32)
    with sterna.compile(path, shapes={"x": (4, 3), "y": (3,)}, generator="llvm") as bundle:
        first, last = bundle.run({"x": x, "y": factor}).values()
    np.testing.assert_allclose(first, x * factor)
    np.testing.assert_allclose(last, factor + (x * factor).sum(0))


@pytest.mark.parametrize(
    ("symbol", "code", "says"),
    [
        (rows(in_data_locs=[0]), "E0103", "names"),
        (loop(max_iterations=0), "E0109", "max_iterations"),
        (loop(func_input_locs=[1, 7]), "E0103", "operands"),
        (loop(cond_input_locs=[0, 1]), "E0103", "takes 1 operands"),
        (choice(then_input_locs=[9, 1]), "E0103", "then_input_locs"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, symbol: dict[str, Any], code: str, says: str) -> None:
    with pytest.raises(SternaError, match=says) as caught:
        read_model(write(tmp_path, symbol), ReadOptions(shapes={"x": (2, 3), "y": (2, 3)}))
    assert caught.value.codes == (code,)


def test_operators_inside_are_named(tmp_path: Path) -> None:
    symbol = json.loads(json.dumps(choice()).replace("elemwise_mul", "Sparkle"))
    with pytest.raises(SternaError, match="Sparkle") as caught:
        read_model(write(tmp_path, symbol), ReadOptions(shapes={"x": (2, 3), "y": (2, 3)}))
    assert caught.value.codes == ("E0104",)
