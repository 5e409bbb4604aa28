"""Complex tensors: pairs of real and imaginary parts, in a last dimension of two that the program does not see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike, as_int


def parts(t: Translation, z: Value) -> tuple[Value, Value]:
    """The real and the imaginary part of a tensor, complex or not."""
    if z not in t.shared.complexes:
        return z, t.full(z.shape, 0, z.dtype)
    last = z.type.rank - 1
    return t.take(z, last, 0), t.take(z, last, 1)


def joined(t: Translation, real: Value, imaginary: Value) -> Value:
    """A complex tensor of its parts."""
    shape = t.broadcast(real, imaginary)
    rows = [t.unsqueeze(t.expand(part, shape), len(shape)) for part in (real, imaginary)]
    return t.op("concat", *rows, axis=len(shape))


def _both(t: Translation, *names: str) -> list[tuple[Value, Value]]:
    return [parts(t, t.tensor(name)) for name in names]


def mul(t: Translation) -> Value:
    (a, b), (c, d) = _both(t, "self", "other")
    real = t.op("sub", t.op("mul", a, c), t.op("mul", b, d))
    return joined(t, real, t.op("add", t.op("mul", a, d), t.op("mul", b, c)))


def div(t: Translation) -> Value:
    (a, b), (c, d) = _both(t, "self", "other")
    size = t.op("add", t.op("mul", c, c), t.op("mul", d, d))
    real = t.op("add", t.op("mul", a, c), t.op("mul", b, d))
    imaginary = t.op("sub", t.op("mul", b, c), t.op("mul", a, d))
    return joined(t, t.op("div", real, size), t.op("div", imaginary, size))


def magnitude(t: Translation) -> Value:
    a, b = parts(t, t.tensor())
    return t.op("sqrt", t.op("add", t.op("mul", a, a), t.op("mul", b, b)))


def conjugate(t: Translation) -> Value:
    a, b = parts(t, t.tensor())
    return joined(t, a, t.op("neg", b))


def polar(t: Translation) -> Value:
    size, angle = t.tensor("abs"), t.tensor("angle")
    return joined(t, t.op("mul", size, t.op("cos", angle)), t.op("mul", size, t.op("sin", angle)))


def exponential(t: Translation) -> Value:
    a, b = parts(t, t.tensor())
    size = t.op("exp", a)
    return joined(t, t.op("mul", size, t.op("cos", b)), t.op("mul", size, t.op("sin", b)))


def same(t: Translation) -> Value:
    return t.tensor()


def named_anew(t: Translation) -> Value:
    """The same pairs, seen as complex numbers or as pairs: as another tensor, so that it is known which."""
    return t.op("identity", t.tensor())


def apart(translate: Translator) -> Translator:
    """What acts on the parts one by one: movement, sums, products with real numbers."""

    def run(t: Translation) -> Any:
        made: list[Any] = []
        for n in range(2):

            def part(value: Any, n: int = n) -> Any:
                if isinstance(value, list):
                    return [part(item) for item in value]
                return parts(t, value)[n] if isinstance(value, Value) and value.dtype.startswith("float") else value

            arguments = {name: part(value) for name, value in t.arguments.items()}
            values = [value for value in arguments.values() if isinstance(value, Value)]
            half = Translation(t.node, f"{t.name}/{n}", arguments, values, t.builder, t.origin, t.shared)
            made.append(translate(half))
        if isinstance(made[0], (list, tuple)):
            return [joined(t, a, b) for a, b in zip(*made, strict=True)]
        return joined(t, made[0], made[1])

    return run


# ---------------------------------------------------------------- Fourier
def _factor(norm: Any, inverse: bool, size: Any) -> Any:
    """What a transform is multiplied by, over an inverse's own 1 / n; norm as torch.fft spells it, or its number."""
    forward = {"": 0, "backward": 0, "ortho": 1, "forward": 2, 0: 0, 1: 1, 2: 2}.get(norm, 0)
    if isinstance(norm, int):  # of the core set: what the transform itself is divided by
        power = {0: 0.0, 1: 0.5, 2: 1.0}[forward]
    else:
        power = {0: 1.0 if inverse else 0.0, 1: 0.5, 2: 0.0 if inverse else 1.0}[forward]
    return float(size) ** -power


def transformed(t: Translation, z: Value, axis: int, inverse: bool, norm: Any, is_real: bool = False) -> Value:
    """The transform of a tensor of pairs along a dimension; of a real one, the half that tells all."""
    size = t.extent(z, axis)
    if not size:
        raise error("E0108", f"{t.kind} of an empty tensor")
    y = standard(
        t, "DFT", z, None, t.constant(axis, "int64"), inverse=int(inverse), onesided=int(is_real and not inverse)
    )
    factor = _factor(norm, inverse, size) * (size if inverse else 1)
    return y if factor == 1 else t.op("mul", y, t.scalar(factor, y.dtype))


def _sized(t: Translation, z: Value, axis: int, size: int | None) -> Value:
    """A dimension cut or filled with zeros."""
    if size is None or size == t.extent(z, axis):
        return z
    have = t.extent(z, axis)
    if size < have:
        return t.cut(z, axis, 0, size)
    after: list[IntLike] = [size - have if n == axis else 0 for n in range(z.type.rank)]
    return t.pad(z, (0,) * z.type.rank, after)


def _axes(t: Translation, rank: int, default: Iterable[int]) -> list[int]:
    found = t.arg("dim", list(default))
    return [t.axis(int(n), rank) for n in (found if isinstance(found, (list, tuple)) else [found])]


def _pairs(t: Translation, x: Value) -> tuple[Value, int]:
    """A tensor as pairs, and its rank without them."""
    if x in t.shared.complexes:
        return x, x.type.rank - 1
    return joined(t, x, t.full(x.shape, 0, x.dtype)), x.type.rank


def _lengths(t: Translation, axes: list[int]) -> list[int | None]:
    given = t.arg("s", t.arg("n"))
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    return [*(None if n is None or n == -1 else int(n) for n in found), *[None] * (len(axes) - len(found))][: len(axes)]


def _default(t: Translation, rank: int) -> Iterable[int]:
    name = t.kind.split(".")[1]
    return (-2, -1) if name.endswith("2") else range(rank) if name.endswith("n") else (-1,)


def _norm(t: Translation) -> Any:
    return t.arg("normalization") if "normalization" in t.arguments else t.arg("norm", "")


def complex_to_complex(inverse: bool | None) -> Translator:
    def translate(t: Translation) -> Value:
        z, rank = _pairs(t, t.tensor())
        back = not t.flag("forward", True) if inverse is None else inverse
        axes = _axes(t, rank, _default(t, rank))
        for axis, size in zip(axes, _lengths(t, axes), strict=True):
            z = transformed(t, _sized(t, z, axis, size), axis, back, _norm(t))
        return z

    return translate


def real_to_complex(t: Translation) -> Value:
    x = t.tensor()
    axes = _axes(t, x.type.rank, _default(t, x.type.rank))
    if not t.flag("onesided", True):
        return complex_to_complex(False)(t)  # type: ignore[return-value]
    lengths = _lengths(t, axes)
    x = _sized(t, x, axes[-1], lengths[-1])
    z = transformed(t, t.unsqueeze(x, x.type.rank), axes[-1], False, _norm(t), is_real=True)
    for axis, size in zip(axes[:-1], lengths[:-1], strict=True):
        z = transformed(t, _sized(t, z, axis, size), axis, False, _norm(t))
    return z


def complex_to_real(t: Translation) -> Value:
    z, rank = _pairs(t, t.tensor())
    axes = _axes(t, rank, _default(t, rank))
    lengths = _lengths(t, axes)
    last = axes[-1]
    for axis, size in zip(axes[:-1], lengths[:-1], strict=True):
        z = transformed(t, _sized(t, z, axis, size), axis, True, _norm(t))
    whole = t.integer("last_dim_size") if "last_dim_size" in t.arguments else lengths[-1]
    whole = 2 * (t.extent(z, last) - 1) if whole is None else whole
    half = _sized(t, z, last, whole // 2 + 1)
    count = whole - (whole // 2 + 1)
    if count:
        # The other half mirrors this one, conjugated.
        starts = [as_int(count if n == last else 0) for n in range(z.type.rank)]
        sizes = [as_int(count) if n == last else size for n, size in enumerate(half.shape)]
        steps = [-1 if n == last else 1 for n in range(z.type.rank)]
        mirrored = t.op("slice", half, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
        mirrored = t.op("mul", mirrored, t.constant([1.0, -1.0], z.dtype))
        half = t.op("concat", half, mirrored, axis=last)
    y = transformed(t, half, last, True, _norm(t))
    return t.take(y, y.type.rank - 1, 0)


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


#: Of complex operands or results.
TRANSLATORS: dict[str, Translator] = {
    **_named(named_anew, "view_as_real.default", "view_as_complex.default"),
    **_named(same, "clone.default", "alias.default",
             "detach.default", "contiguous.default", "resolve_conj.default", "_to_copy.default", "to.dtype"),
    **_named(mul, "mul.Tensor", "mul.Scalar"), **_named(div, "div.Tensor"),
    **_named(magnitude, "abs.default"), **_named(conjugate, "conj.default", "_conj.default", "conj_physical.default"),
    **_named(lambda t: parts(t, t.tensor())[0], "real.default"),
    **_named(lambda t: parts(t, t.tensor())[1], "imag.default"),
    **_named(polar, "polar.default"), **_named(exponential, "exp.default"),
    **_named(lambda t: joined(t, t.tensor("real"), t.tensor("imag")), "complex.default"),
    **_named(complex_to_complex(False), "fft_fft.default", "fft_fft2.default", "fft_fftn.default"),
    **_named(complex_to_complex(True), "fft_ifft.default", "fft_ifft2.default", "fft_ifftn.default"),
    **_named(complex_to_complex(None), "_fft_c2c.default"),
    **_named(real_to_complex, "fft_rfft.default", "fft_rfft2.default", "fft_rfftn.default", "_fft_r2c.default"),
    **_named(complex_to_real, "fft_irfft.default", "fft_irfft2.default", "fft_irfftn.default", "_fft_c2r.default"),
}  # fmt: skip

#: Operators that act on the parts one by one.
APART = frozenset(
    f"aten.{name}"
    for name in (
        "add.Tensor", "sub.Tensor", "neg.default", "view.default", "reshape.default", "unsqueeze.default",
        "squeeze.dim", "squeeze.dims", "slice.Tensor", "select.int", "expand.default", "permute.default",
        "transpose.int", "cat.default", "stack.default", "index.Tensor", "index_select.default", "flatten.using_ints",
        "split.Tensor", "split_with_sizes.default", "unbind.int", "sum.dim_IntList", "mean.dim", "repeat.default",
        "flip.default", "roll.default", "_unsafe_view.default", "unflatten.int", "embedding.default", "t.default",
    )
)  # fmt: skip


def complex_translator(target: str, plain: Callable[[str], Translator]) -> Translator:
    """The translator of an operator with complex operands or results.

    Raises:
        SternaError: E0111, it does not take them.
    """
    if target in TRANSLATORS:
        return TRANSLATORS[target]
    if target in APART:
        return apart(plain(target))
    raise error("E0111", f"{target} of complex numbers is not supported")


__all__ = ["APART", "TRANSLATORS", "complex_translator"]
