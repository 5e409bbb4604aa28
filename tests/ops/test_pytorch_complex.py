"""PyTorch's operators of complex numbers against NumPy: functions, numbers beside tensors, parts that are moved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.exported_programs import Name, Program

RNG = np.random.default_rng(61)


def numbers(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


def given(program: Program, inputs: dict[str, np.ndarray], value: np.ndarray) -> Name:
    """An array as an input; a complex one as pairs."""
    name = f"in{len(inputs)}"
    if value.dtype.kind != "c":
        inputs[name] = value
        return program.input(name, value.shape, value.dtype.name)
    inputs[name] = value.view(np.float32).reshape(*value.shape, 2)
    pairs = program.input(name, inputs[name].shape)
    z = program.tensor(f"z{name}", "complex64", value.shape)
    return Name(program.call("aten.view_as_complex.default", str(z), self=pairs))


def called(target: str, wanted: np.ndarray, **arguments: Any) -> np.ndarray:
    """The result of one call, complex where the wanted one is."""
    program, inputs = Program(), dict[str, np.ndarray]()

    def named(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return given(program, inputs, value)
        if isinstance(value, list) and any(isinstance(item, np.ndarray) for item in value):
            return [named(item) for item in value]
        return {"as_complex": {"real": value.real, "imag": value.imag}} if isinstance(value, complex) else value

    operands = {name: named(value) for name, value in arguments.items()}
    if wanted.dtype.kind == "c":
        program.tensor("y", "complex64", wanted.shape)
    made = program.call(f"aten.{target}", "y", **operands)
    if wanted.dtype.kind == "c":
        made = program.call("aten.view_as_real.default", "pairs", self=made)
    program.output(made)
    with tempfile.TemporaryDirectory() as folder:
        (found,) = interpret(read_model(program.write(Path(folder) / "model.pt2")), inputs).values()
    return found.view(np.complex64)[..., 0] if wanted.dtype.kind == "c" else found


def check(target: str, wanted: Any, /, **arguments: Any) -> None:
    wanted = np.asarray(wanted)
    wanted = wanted.astype(np.complex64) if wanted.dtype.kind == "c" else wanted
    found = called(target, wanted, **arguments)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reciprocal": np.reciprocal, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "square": np.square, "sgn": lambda z: z / np.abs(z),
    "isfinite": np.isfinite, "abs": np.abs, "angle": np.angle,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    z = numbers(3, 4)
    check(f"{name}.default", FUNCTIONS[name](z), self=z)


def test_roots_where_digits_are_lost() -> None:
    """Beside both halves of the real axis, and at 0."""
    z = np.array([4, -4, 4 + 1e-4j, -4 + 1e-4j, -4 - 1e-4j, 3j, -3j, 1e-8 + 1j], np.complex64)
    check("sqrt.default", np.sqrt(z), self=z)
    check("sqrt.default", np.zeros(2, np.complex64), self=np.zeros(2, np.complex64))
    check("sgn.default", np.zeros(2, np.complex64), self=np.zeros(2, np.complex64))
    far = np.array([60 + 1j, -60 + 2j], np.complex64)
    check("tanh.default", np.tanh(far), self=far)


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, -3, 0.5, 1.5, 1 - 2j])
def test_powers(exponent: complex) -> None:
    z = numbers(5)
    check("pow.Tensor_Scalar", z**exponent, self=z, exponent=exponent)


def test_numbers_beside_tensors() -> None:
    """A real number changes the real part alone; a complex one makes a real tensor complex."""
    z, x = numbers(2, 3), RNG.standard_normal((2, 3)).astype(np.float32)
    for value in (2, -1.5, 3j, 1 - 2j):
        check("add.Tensor", z + value, self=z, other=value)
        check("sub.Tensor", z - value, self=z, other=value)
        check("rsub.Scalar", value - z, self=z, other=value)
        check("mul.Tensor", z * value, self=z, other=value)
        check("div.Tensor", z / value, self=z, other=value)
        check("mul.Tensor", (x * value).astype(np.complex64), self=x, other=value)
        check("where.ScalarOther", np.where(x > 0, z, value), condition=x > 0, self=z, other=value)
        check("masked_fill.Scalar", np.where(x > 0, value, z), self=z, mask=x > 0, value=value)
        check("eq.Scalar", z == value, self=z, other=value)
    check("add.Tensor", z + 6.0, self=z, other=3.0, alpha=2)
    check("mul.Tensor", z * (x > 0), self=z, other=x > 0)
    check("sub.Tensor", x - z, self=x, other=z)
    check("add.Tensor", z + (2 - 1j) * x, self=z, other=x, alpha=2 - 1j)
    check("sub.Tensor", z - 1j * z, self=z, other=z, alpha=1j)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_beside_tensors(dtype: type) -> None:
    """They change the real part alone, as real numbers do; places and conditions stay what they are."""
    z, n = numbers(2, 3), np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    check("add.Tensor", z + n, self=z, other=n)
    check("add.Tensor", n + z, self=n, other=z)
    check("sub.Tensor", n.astype(np.float32) - z, self=n, other=z)
    check("mul.Tensor", z * n, self=z, other=n)
    check("where.self", np.where(n == 1, z, n), condition=n == 1, self=z, other=n)
    check("cat.default", np.concatenate([z, n]), tensors=[z, n])
    put = z.copy()
    put[[1, 0]] = n
    check("index_put.default", put, self=z, indices=[np.array([1, 0])], values=n)


@pytest.mark.parametrize("scale", [1e20, 1e-25])
def test_numbers_whose_squares_overflow_or_vanish(scale: float) -> None:
    z = (np.array([3 + 4j, -3, 4j]) * scale).astype(np.complex64)
    exact = z.astype(np.complex128)
    far = np.abs(exact)
    results = {"log": np.log(exact), "sqrt": np.sqrt(exact), "sgn": exact / far, "reciprocal": 1 / exact}
    for name, wanted in results.items():
        np.testing.assert_allclose(called(f"{name}.default", wanted.astype(np.complex64), self=z), wanted, rtol=2e-6)
    np.testing.assert_allclose(called("abs.default", far.astype(np.float32), self=z), far, rtol=2e-6)
    check("div.Tensor", np.ones(3, np.complex64), self=z, other=z)
    infinite = np.array([complex(np.inf, 1), complex(1, -np.inf), complex(np.inf, -np.inf)], np.complex64)
    check("abs.default", np.full(3, np.inf, np.float32), self=infinite)


def test_sums_products_and_norms() -> None:
    a, b = numbers(4), numbers(4)
    check("dot.default", np.dot(a, b), self=a, tensor=b)
    check("vdot.default", np.vdot(a, b), self=a, other=b)
    check("ne.Tensor", a != b, self=a, other=b)
    m = numbers(2, 3)
    check("cumsum.default", np.cumsum(m, 1), self=m, dim=1)
    check("mH.default", m.conj().T, self=m)
    check("linalg_norm.default", np.linalg.norm(m), self=m)
    check("linalg_vector_norm.default", np.abs(m).sum(1), self=m, ord=1, dim=[1])
    with pytest.raises(SternaError) as caught:
        check("linalg_norm.default", np.float32(0), self=m, ord=2)
    assert caught.value.codes == ("E0111",)


def test_parts_that_are_moved() -> None:
    z = numbers(3, 3)
    check("diagonal.default", np.diagonal(z), self=z)
    check("tril.default", np.tril(z), self=z)
    put = z.copy()
    put[[0, 2]] += z[1]
    check("index_put.default", put, self=z, indices=[np.array([0, 2])], values=z[1], accumulate=True)
    check("constant_pad_nd.default", np.pad(z, ((0, 0), (1, 1)), constant_values=2), self=z, pad=[1, 1], value=2.0)


def test_other_types() -> None:
    x = RNG.standard_normal(3).astype(np.float32)
    check("cfloat.default", x.astype(np.complex64), self=x)
    check("_to_copy.default", x.astype(np.complex64), self=np.array(x))
