"""Special functions beside SciPy's, over their whole ranges; their edges."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from support.exported_programs import Program
from support.graph_defs import GraphWriter
from support.mxnet_symbols import parameters
from support.replaying import replay

special = pytest.importorskip("scipy.special", reason="SciPy is not installed")

Array = np.ndarray
_WIDE = np.concatenate([np.linspace(-30, 30, 1201), np.linspace(-1, 1, 401), [1e-6, 1e-3, 100.0, 1000.0, 1e5]])
_POSITIVE = np.concatenate([np.geomspace(1e-4, 1e3, 600), np.linspace(0.01, 40, 600)])
_UNIT = np.concatenate([np.linspace(-0.999, 0.999, 401), 1 - np.geomspace(1e-6, 1, 30)])
_SHARES = np.concatenate([np.geomspace(1e-37, 0.5, 300), 1 - np.geomspace(1e-4, 0.5, 100)])
CASES = {
    "lgamma": (special.gammaln, _WIDE),
    "digamma": (special.digamma, _WIDE),
    "erfinv": (special.erfinv, _UNIT),
    "ndtri": (special.ndtri, _SHARES),
    "bessel_i0e": (special.i0e, _WIDE),
    "bessel_i1e": (special.i1e, _WIDE),
    "bessel_j0": (special.j0, _WIDE[np.abs(_WIDE) < 2000]),
    "bessel_j1": (special.j1, _WIDE[np.abs(_WIDE) < 2000]),
    "bessel_y0": (special.y0, _POSITIVE),
    "bessel_y1": (special.y1, _POSITIVE),
    "bessel_k0e": (special.k0e, _POSITIVE),
    "bessel_k1e": (special.k1e, _POSITIVE),
}


def evaluated(op: str, *given: Array) -> Array:
    values = tuple(Value(f"x{n}", tensor_type(str(x.dtype), x.shape)) for n, x in enumerate(given))
    builder = Builder()
    y = builder.add(op, *values)
    graph = Graph("g", values, (y,), tuple(builder.nodes), ("y",))
    with np.errstate(all="ignore"):
        return interpret(graph, {f"x{n}": x for n, x in enumerate(given)})["y"]


@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 4e-6), ("float64", 1e-9)])
def test_beside_scipy(op: str, dtype: str, bound: float) -> None:
    """Errors of the result or of 1, whichever is larger, at numbers that the type has exactly; where a function is
    steep its argument's own last place counts, too."""
    function, points = CASES[op]
    bound = max(bound, 1e-6) if op == "ndtri" else bound  # no more digits than float32 has
    x = points.astype(dtype)
    if op in ("lgamma", "digamma"):  # beside a pole the rounding of the distance from it is all that there is
        x = x[(x > 0) | (np.abs(x - np.rint(x)) > 0.02)]
    wanted = function(x.astype(np.float64))
    found = evaluated(op, x)
    assert found.dtype == dtype
    steep = np.abs(function(np.nextafter(x, np.inf, dtype=dtype).astype(np.float64)) - wanted)
    error = np.abs(found - wanted) - 2 * steep
    assert (error <= bound * np.maximum(1, np.abs(wanted))).all(), (x[np.nanargmax(error)], np.nanmax(error))


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 4e-6), ("float64", 1e-9)])
def test_zeta(dtype: str, bound: float) -> None:
    s, q = (v.astype(dtype) for v in np.meshgrid([1.5, 2.0, 3.0, 5.0, 9.0], [0.25, 0.5, 1.0, 2.5, 10.0, 200.0]))
    wanted = special.zeta(s.astype(np.float64), q.astype(np.float64))
    np.testing.assert_allclose(evaluated("zeta", s, q), wanted, rtol=4 * bound, atol=0)


@pytest.mark.parametrize(
    ("op", "given", "wanted"),
    [
        ("lgamma", [0, -1, -2, np.inf, -np.inf, np.nan], [np.inf, np.inf, np.inf, np.inf, np.inf, np.nan]),
        ("digamma", [-1, -2, np.inf, np.nan], [np.nan, np.nan, np.inf, np.nan]),
        ("erfinv", [-1, 1, 2, 0], [-np.inf, np.inf, np.nan, 0]),
        ("ndtri", [0, 1, -1, 2, 0.5], [-np.inf, np.inf, np.nan, np.nan, 0]),
        ("bessel_y0", [0, -1], [-np.inf, np.nan]),
        ("bessel_y1", [0, -1], [-np.inf, np.nan]),
        ("bessel_k0e", [0, -1], [np.inf, np.nan]),
        ("bessel_k1e", [0, -1], [np.inf, np.nan]),
    ],
)
def test_edges(op: str, given: list[float], wanted: list[float]) -> None:
    np.testing.assert_array_equal(evaluated(op, np.array(given, np.float32)), np.array(wanted, np.float32))


X, POSITIVE = np.linspace(-4.3, 6.7, 23, dtype=np.float32), np.linspace(0.15, 12, 23, dtype=np.float32)
ATEN = {
    "lgamma": (special.gammaln, X), "special_psi": (special.digamma, X), "erfinv": (special.erfinv, X / 7),
    "i0": (special.i0, X), "special_i0e": (special.i0e, X), "special_i1": (special.i1, X),
    "special_i1e": (special.i1e, X), "special_bessel_j1": (special.j1, X), "special_bessel_y0": (special.y0, POSITIVE),
    "special_modified_bessel_k0": (special.k0, POSITIVE), "special_scaled_modified_bessel_k1": (special.k1e, POSITIVE),
    "special_entr": (special.entr, X), "special_ndtr": (special.ndtr, X), "special_erfcx": (special.erfcx, X),
    "special_log_ndtr": (special.log_ndtr, 3 * X), "special_ndtri": (special.ndtri, POSITIVE / 13),
    "special_spherical_bessel_j0": (lambda x: special.spherical_jn(0, np.abs(x)), X),
}  # fmt: skip
TENSORFLOW = {
    "BesselI0": (special.i0, X), "BesselK1": (special.k1, POSITIVE), "BesselK0e": (special.k0e, POSITIVE),
    "BesselY1": (special.y1, POSITIVE), "Digamma": (special.digamma, X), "Erfinv": (special.erfinv, X / 7),
    "Lgamma": (special.gammaln, X), "Ndtri": (special.ndtri, POSITIVE / 13),
}  # fmt: skip
MXNET = {
    "gamma": (special.gamma, X), "gammaln": (special.gammaln, X), "digamma": (special.digamma, X),
    "erfinv": (special.erfinv, X / 7),
}  # fmt: skip


def agrees(graph: Graph, x: Array, wanted: Array) -> None:
    with np.errstate(all="ignore"):
        (found,) = interpret(graph, {graph.inputs[0].name: x}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6 * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.parametrize("name", ATEN)
def test_of_pytorch(name: str, tmp_path: Path) -> None:
    function, x = ATEN[name]
    program = Program()
    operand = "x" if name.startswith(("special_scaled", "special_spherical")) else "self"
    program.output(program.call(f"aten.{name}.default", **{operand: program.input("x", x.shape)}))
    (tmp_path / "model.pt2").write_bytes(program.content())
    agrees(read_model(tmp_path / "model.pt2"), x, function(x.astype(np.float64)))


@pytest.mark.parametrize(("op", "function"), [("Igamma", special.gammainc), ("Igammac", special.gammaincc)])
def test_incomplete_gamma_functions_of_tensorflow(op: str, function: Callable[..., Array], tmp_path: Path) -> None:
    """Of operands that are broadcast; test_pytorch_overloads.py has the rest."""
    g = GraphWriter()
    g.input("x", POSITIVE.shape)
    g.node(op, [g.constant(np.float32([[0.4], [7]])), "x"], name="y")
    exact = np.array([[0.4], [7]], np.float32).astype(np.float64)
    agrees(read_model(g.write(tmp_path)), POSITIVE, function(exact, POSITIVE.astype(np.float64)))


@pytest.mark.parametrize(("n", "x"), [(0, X), (1, X), (2, POSITIVE), (5, POSITIVE)])
def test_polygamma(n: int, x: Array, tmp_path: Path) -> None:
    """Of the first two negative numbers, too, where the reflection gives them."""
    program = Program()
    program.output(program.call("aten.polygamma.default", n=n, self=program.input("x", x.shape)))
    (tmp_path / "model.pt2").write_bytes(program.content())
    exact = x.astype(np.float64)
    wanted = special.polygamma(n, np.where(exact < 0, 1 - exact, exact))
    if n == 0:
        wanted = np.where(exact < 0, wanted - np.pi / np.tan(np.pi * exact), wanted)
    if n == 1:
        wanted = np.where(exact < 0, (np.pi / np.sin(np.pi * exact)) ** 2 - wanted, wanted)
    agrees(read_model(tmp_path / "model.pt2"), x, wanted)


@pytest.mark.parametrize("name", TENSORFLOW)
def test_of_tensorflow(name: str, tmp_path: Path) -> None:
    function, x = TENSORFLOW[name]
    graph = GraphWriter()
    graph.input("x", x.shape)
    graph.node(name, ["x"], "y")
    agrees(read_model(graph.write(tmp_path)), x, function(x.astype(np.float64)))


@pytest.mark.parametrize("name", MXNET)
def test_of_mxnet(name: str, tmp_path: Path) -> None:
    function, x = MXNET[name]
    nodes = [{"op": "null", "name": "x", "inputs": []}, {"op": name, "name": "y", "inputs": [[0, 0, 0]]}]
    symbol = {"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}
    (tmp_path / "net-symbol.json").write_text(json.dumps(symbol))
    (tmp_path / "net-0000.params").write_bytes(parameters({"arg:unused": np.zeros(1, np.float32)}))
    graph = read_model(tmp_path / "net-symbol.json", ReadOptions(shapes={"x": x.shape}))
    agrees(graph, x, function(x.astype(np.float64)))


@pytest.mark.parametrize("generator", ["llvm", "c"])
def test_compiled(generator: str, tmp_path: Path) -> None:
    """A few of them as machine code, fused."""
    program = Program()
    x = program.input("x", X.shape)
    gamma = program.call("aten.lgamma.default", self=x)
    program.output(program.call("aten.add.Tensor", self=gamma, other=program.call("aten.i0.default", self=x)))
    (tmp_path / "model.pt2").write_bytes(program.content())
    with sterna.compile(tmp_path / "model.pt2", generator=generator, tuning=False) as bundle:
        (found,) = bundle.run({"x": X}).values()
    np.testing.assert_allclose(found, special.gammaln(X) + special.i0(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("generator", ["llvm", "c"])
def test_in_webassembly(generator: str, tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", POSITIVE.shape)
    names = ("lgamma", "digamma", "special_bessel_y0", "special_modified_bessel_k1")
    for name in names:
        program.output(program.call(f"aten.{name}.default", self=x))
    (tmp_path / "model.pt2").write_bytes(program.content())
    replay(tmp_path / "model.pt2", [{"x": POSITIVE}], tmp_path, generator, 1e-5, tuning=False)
