"""Complex tensors: pairs of real and imaginary parts, in a last dimension of two that the program does not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sterna.errors import error
from sterna.frontends.angles import arc_tangent, quotient
from sterna.frontends.pytorch.operators import complex_functions, sizes, transforms
from sterna.frontends.pytorch.operators.pairs import joined, parts
from sterna.frontends.pytorch.tensors import COMPLEX
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value


def _real_type(t: Translation) -> str:
    """The type of the parts of what a call gives."""
    operands = [found for found in t.arguments.values() if isinstance(found, Value)]
    said = next((info.dtype for info in t.results if info is not None), "")
    double = said == "complex128" or any(found.dtype == "float64" and found.type.rank for found in operands)
    return "float64" if double else "float32"


def _both(t: Translation, *names: str) -> list[tuple[Value, Value]]:
    """The parts of operands, which may be numbers."""
    dtype, made = _real_type(t), []
    for name in names:
        found = t.arg(name)
        if isinstance(found, complex):
            made.append((t.scalar(found.real, dtype), t.scalar(found.imag, dtype)))
        else:
            real, imaginary = parts(t, t.tensor(name))
            made.append((t.cast(real, dtype), t.cast(imaginary, dtype)))
    return made


def mul(t: Translation) -> Value:
    return joined(t, *complex_functions.product(t, *_both(t, "self", "other")))


def div(t: Translation) -> Value:
    return joined(t, *quotient(t, *_both(t, "self", "other")))


def magnitude(t: Translation) -> Value:
    return complex_functions.size(t, parts(t, t.tensor()))


def conjugate(t: Translation) -> Value:
    a, b = parts(t, t.tensor())
    return joined(t, a, t.op("neg", b))


def polar(t: Translation) -> Value:
    size, angle = t.tensor("abs"), t.tensor("angle")
    return joined(t, t.op("mul", size, t.op("cos", angle)), t.op("mul", size, t.op("sin", angle)))


def same(t: Translation) -> Value:
    return t.tensor()


def converted(t: Translation) -> Value:
    """In another type: of complex numbers, or of their real parts."""
    z, wanted = t.tensor(), next((info.dtype for info in t.results if info is not None), None)
    if wanted is None:
        return z
    real, imaginary = parts(t, z)
    if wanted not in COMPLEX:
        return t.cast(real, str(wanted))
    dtype = "float64" if wanted == "complex128" else "float32"
    return joined(t, t.cast(real, dtype), t.cast(imaginary, dtype))


def named_anew(t: Translation) -> Value:
    """The same pairs, seen as complex numbers or as pairs: as another tensor, so that it is known which."""
    return t.op("identity", t.tensor())


#: Arguments that are added to a tensor's elements or stand for some, not numbers that both parts are multiplied by.
_OPERANDS = frozenset(("self", "other", "value", "fill_value"))
#: The same and what more holds tensors of numbers, not of places or conditions.
_NUMBERS = _OPERANDS | {"values", "source", "src", "tensors"}


def apart(translate: Translator) -> Translator:
    """What acts on the parts one by one: movement, sums, products with real numbers."""

    def run(t: Translation) -> Any:
        made: list[Any] = []
        dtype, multiplied = _real_type(t), _multiplied(t)
        for n in range(2):

            def part(name: str, value: Any, n: int = n) -> Any:
                if isinstance(value, list):
                    return [part(name, item) for item in value]
                if isinstance(value, complex):
                    return value.imag if n else value.real
                if not isinstance(value, Value):
                    return value
                if not value.dtype.startswith("float"):  # integers and truths beside complex numbers, or places
                    return parts(t, t.cast(value, dtype))[n] if name in _NUMBERS else value
                return parts(t, value)[n]

            arguments = {name: part(name, value) for name, value in t.arguments.items()}
            if multiplied is not None:
                arguments |= {"other": multiplied[n], "alpha": 1}
            for name in _OPERANDS & arguments.keys():
                if n and isinstance(arguments[name], (int, float)) and not isinstance(t.arguments[name], complex):
                    arguments[name] = 0  # a real number has no imaginary part
            values = [value for value in arguments.values() if isinstance(value, Value)]
            half = Translation(t.node, f"{t.name}/{n}", arguments, values, t.builder, t.origin, t.shared)
            made.append(translate(half))
        if isinstance(made[0], (list, tuple)):
            return [joined(t, a, b) for a, b in zip(*made, strict=True)]
        return joined(t, made[0], made[1])

    return run


def _multiplied(t: Translation) -> tuple[Value, Value] | None:
    """The parts of a sum's second operand where it is multiplied by a complex number."""
    if not isinstance(t.arg("alpha"), complex):
        return None
    return complex_functions.product(t, *_both(t, "other", "alpha"))


def angle(t: Translation) -> Value:
    a, b = parts(t, t.tensor())
    return arc_tangent(t, b, a)


def filled(t: Translation) -> Value:
    """zeros, ones and full, of numbers whose imaginary part is 0 unless it is given."""
    name = t.kind.split(".")[1]
    value = complex(t.arg("fill_value", 1 if name.startswith("ones") else 0))
    x = t.maybe("self")
    shape = t.sizes_of("size") if "size" in t.arguments else () if x is None else parts(t, x)[0].shape
    double = t.arg("dtype") == "complex128" or (x is not None and x.dtype == "float64")
    dtype = "float64" if double else "float32"
    return joined(t, t.full(shape, value.real, dtype), t.full(shape, value.imag, dtype))


def _bilinear(translate: Translator, names: tuple[str, ...]) -> Translator:
    """(a + ib)(c + id) = ac - bd + i(ad + bc)."""

    def run(t: Translation) -> Value:
        listed = len(names) == 1
        operands = t.tensors(names[0]) if listed else [t.tensor(name) for name in names]
        if len(operands) != 2 or t.maybe("bias") is not None:
            raise error("E0111", f"{t.kind} of {len(operands)} complex operands, or with a bias, is not supported")
        (a, b), (c, d) = (parts(t, operand) for operand in operands)

        def product(*values: Value) -> Value:
            given = {names[0]: list(values)} if listed else dict(zip(names, values, strict=True))
            made = translate(t.having(**given))
            assert isinstance(made, Value)
            return made

        real = t.op("sub", product(a, c), product(b, d))
        return joined(t, real, t.op("add", product(a, d), product(b, c)))

    return run


def of_real_part(translate: Translator) -> Translator:
    """What asks for sizes only."""

    def run(t: Translation) -> Any:
        real, _ = parts(t, t.tensor())
        return translate(t.having(self=real))

    return run


def of_size(translate: Translator) -> Translator:
    """Norms, which are those of the sizes of the numbers."""

    def run(t: Translation) -> Any:
        if t.arg("ord") not in (None, "fro") and "vector" not in t.kind:
            raise error("E0111", f"{t.kind} of complex numbers, of this order, is not supported")
        name = t.given("self", "x", "A")
        return translate(t.having(**{name: complex_functions.size(t, parts(t, t.tensor(name)))}))

    return run


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


#: Of complex operands or results.
TRANSLATORS: dict[str, Translator] = {
    **_named(named_anew, "view_as_real.default", "view_as_complex.default"),
    **_named(same, "clone.default", "alias.default",
             "detach.default", "contiguous.default", "resolve_conj.default"),
    **_named(converted, "_to_copy.default", "to.dtype", "to.dtype_layout", "cfloat.default", "cdouble.default"),
    **_named(mul, "mul.Tensor", "mul.Scalar"), **_named(div, "div.Tensor", "div.Scalar"),
    **_named(magnitude, "abs.default"), **_named(conjugate, "conj.default", "_conj.default", "conj_physical.default"),
    **_named(lambda t: parts(t, t.tensor())[0], "real.default"),
    **_named(lambda t: parts(t, t.tensor())[1], "imag.default"),
    **_named(angle, "angle.default"),
    **_named(filled, "zeros.default", "ones.default", "full.default", "zeros_like.default", "ones_like.default",
             "full_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default"),
    **_named(same, "lift_fresh.default", "lift_fresh_copy.default", "resolve_neg.default", "to.device"),
    **_named(polar, "polar.default"), **complex_functions.TRANSLATORS,
    **_named(lambda t: joined(t, t.tensor("real"), t.tensor("imag")), "complex.default"),
    **transforms.TRANSLATORS,
    **{target: of_real_part(translate) for target, translate in sizes.OF_TENSORS.items()},
}  # fmt: skip

#: Operators that are linear in each of two operands.
_BILINEAR = {
    **dict.fromkeys(("aten.mm.default", "aten.bmm.default"), ("self", "mat2")),
    "aten.matmul.default": ("self", "other"), "aten.einsum.default": ("tensors",),
    "aten.linear.default": ("input", "weight"),
}  # fmt: skip

_NORMS = frozenset(
    f"aten.{name}"
    for name in ("linalg_norm.default", "linalg_vector_norm.default", "norm.Scalar", "norm.ScalarOpt_dim",
                 "frobenius_norm.dim", "linalg_matrix_norm.str_ord")
)  # fmt: skip

#: Operators that act on the parts one by one.
APART = frozenset(
    f"aten.{name}"
    for name in (
        "add.Tensor", "sub.Tensor", "neg.default", "view.default", "reshape.default", "unsqueeze.default",
        "squeeze.dim", "squeeze.dims", "slice.Tensor", "select.int", "expand.default", "permute.default",
        "transpose.int", "cat.default", "stack.default", "index.Tensor", "index_select.default", "flatten.using_ints",
        "split.Tensor", "split_with_sizes.default",
        "fft_fftshift.default", "fft_ifftshift.default", "pad.default", "constant_pad_nd.default", "chunk.default",
        "narrow.default", "sum.default", "mean.default", "copy.default", "squeeze.default", "movedim.int",
        "gather.default", "expand_as.default", "slice_scatter.default", "where.self", "tile.default",
        "unbind.int", "sum.dim_IntList", "mean.dim", "repeat.default",
        "flip.default", "roll.default", "_unsafe_view.default", "unflatten.int", "embedding.default", "t.default",
        "mT.default", "masked_fill.Scalar", "masked_fill.Tensor", "where.ScalarOther", "where.ScalarSelf",
        "index_put.default", "_unsafe_index_put.default", "scatter.src", "scatter.value", "scatter_add.default",
        "index_add.default", "index_copy.default", "select_scatter.default", "diagonal.default", "triu.default",
        "tril.default", "cumsum.default", "diff.default", "trace.default", "rot90.default", "take_along_dim.default",
        "unfold.default", "movedim.intlist", "swapaxes.default", "swapdims.default", "ravel.default",
        "broadcast_to.default", "view_as.default", "reshape_as.default", "repeat_interleave.self_int",
        "diag_embed.default", "add.Scalar", "sub.Scalar",
    )
)  # fmt: skip


def complex_translator(target: str, plain: Callable[[str], Translator]) -> Translator:
    """The translator of an operator with complex operands or results.

    Raises:
        SternaError: E0111, it does not take them.
    """
    if target in TRANSLATORS:
        return TRANSLATORS[target]
    if target in sizes.TESTS:
        return plain(target)
    if target in _NORMS:
        return of_size(plain(target))
    if target in APART:
        return apart(plain(target))
    if target in _BILINEAR:
        return _bilinear(plain(target), _BILINEAR[target])
    raise error("E0111", f"{target} of complex numbers is not supported")


__all__ = ["APART", "TRANSLATORS", "complex_translator"]
