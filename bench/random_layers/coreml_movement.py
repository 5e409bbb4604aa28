"""Random operations of Core ML's programs that move elements, resize pictures, or go from step to step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from coremltools.converters.mil import Builder as mb  # noqa: N813

from random_layers.coreml_programs import (
    Array,
    Maker,
    Step,
    activation,
    binary,
    convolution,
    deconvolution,
    element,
    normalization,
    picking,
    pool,
    reduction,
    several,
    softmax,
)  # fmt: skip
from random_layers.drawing import Draw


def shape_of(d: Draw, x: Array) -> Step:
    form, rank, axis = d.whole(0, 9), x.ndim, d.axis(x.ndim)
    if form == 0:
        order = d.order(rank)
        return Step(lambda v: mb.transpose(x=v, perm=order))
    if form == 1:
        first = d.divisor(int(x.size))
        shape = [first, -1] if d.flag() else [first, int(x.size) // first]
        return Step(lambda v: mb.reshape(x=v, shape=shape))
    if form == 2:
        axes = [d.whole(-rank - 1, rank)]
        return Step(lambda v: mb.expand_dims(x=v, axes=axes))
    if form == 3:
        axes = sorted({n % rank for n in d.axes(rank)})
        return Step(lambda v: mb.reverse(x=v, axes=axes))
    if form == 4:
        times = several(d, rank, 1, 3)
        return Step(lambda v: mb.tile(x=v, reps=times))
    if form == 5:
        other, woven = d.floats(*x.shape), d.flag(0.3)
        if not woven:
            other = other.take([0] * d.whole(1, 3), axis)

        def joined(v: torch.Tensor) -> torch.Tensor:
            if woven:
                return torch.stack([v, torch.tensor(other)], axis % rank + 1).flatten(axis % rank, axis % rank + 1)
            return torch.cat([v, torch.tensor(other)], axis)

        return Step(lambda v: mb.concat(values=[v, other], axis=axis, interleave=woven), joined)
    if form == 6:
        return Step(lambda v: mb.stack(values=[v, v], axis=axis), lambda v: torch.stack([v, v], axis))
    if form == 7:
        size = x.shape[axis]
        first = d.whole(0, size)
        sizes = [n for n in (first, size - first) if n]
        return Step(lambda v: _first(mb.split(x=v, split_sizes=sizes, axis=axis)), lambda v: v.split(sizes, axis)[0])
    if form == 8:
        return Step(lambda v: mb.flatten2d(x=v, axis=axis % rank))
    return Step(lambda v: mb.squeeze(x=mb.expand_dims(x=v, axes=[0]), axes=[0]))


def _first(made: Any) -> Any:
    return made[0] if isinstance(made, (list, tuple)) else made


def part(d: Draw, x: Array) -> Step:
    """Slices, written parts, windows."""
    form, rank = d.whole(0, 3), x.ndim
    if form <= 1:
        begin, end, stride = [], [], []
        squeezed, from_start, to_end = ([d.flag(chance) for _ in range(rank)] for chance in (0.15, 0.2, 0.2))
        taken: list[Any] = []
        for n, size in enumerate(x.shape):
            step = d.of(1, 1, 2, -1)
            low, high = sorted((d.whole(0, size - 1), d.whole(0, size - 1)))
            first, last = (low, high + 1) if step > 0 else (high, max(low - 1, 0))
            to_end[n] = to_end[n] or (step < 0 and low == 0)
            first = first - size if d.flag(0.2) else first
            begin, end, stride = [*begin, first], [*end, last], [*stride, 1 if squeezed[n] else step]
            from_start[n] = from_start[n] and not squeezed[n]
            chosen = slice(None if from_start[n] else first, None if to_end[n] else last, step)
            taken.append(first if squeezed[n] else chosen)
        said = {"begin": begin, "end": end, "stride": stride, "squeeze_mask": squeezed, "begin_mask": from_start,
                "end_mask": to_end}  # fmt: skip
        if all(squeezed) or not all(x[tuple(taken)].shape):
            raise ValueError("nothing is left")
        return Step(
            lambda v: mb.slice_by_index(x=v, **said),
            lambda v: torch.tensor(np.ascontiguousarray(v.numpy()[tuple(taken)])),
        )
    if form == 2:
        begin = [d.whole(0, n - 1) for n in x.shape]
        sizes = [d.of(-1, d.whole(1, n - b)) for n, b in zip(x.shape, begin, strict=True)]
        whole = tuple(slice(b, None if n == -1 else b + n) for b, n in zip(begin, sizes, strict=True))
        return Step(lambda v: mb.slice_by_size(x=v, begin=begin, size=sizes), lambda v: v[whole].clone())
    axis = d.axis(rank)
    size, step = d.whole(1, x.shape[axis]), d.whole(1, 2)

    def seen(v: torch.Tensor) -> torch.Tensor:
        return v.unfold(axis % rank, size, step).movedim(-1, axis % rank + 1).contiguous()

    return Step(lambda v: mb.sliding_windows(x=v, axis=axis, size=size, stride=step), seen)


def border(d: Draw, x: Array) -> Step:
    mode, count = d.of("constant", "reflect", "replicate"), min(x.ndim, d.whole(1, 2))
    if mode != "constant" and x.ndim < 3:
        raise ValueError("PyTorch does not take it")
    most = [3 if mode == "constant" else n - 1 for n in x.shape[-count:]]
    amounts = [d.whole(0, min(2, n)) for n in most for _ in range(2)]
    value = d.real(-1, 1) if mode == "constant" else 0.0
    turned = [each for n in range(count) for each in amounts[2 * (count - 1 - n) : 2 * (count - n)]]
    if mode == "constant":
        return Step(lambda v: mb.pad(x=v, pad=amounts, mode=mode, constant_val=np.float32(value)),
                    lambda v: F.pad(v, turned, value=value))  # fmt: skip

    def result(v: torch.Tensor) -> torch.Tensor:
        flat = v.reshape(1, -1, *v.shape[-count:])
        made = F.pad(flat, turned, mode=mode)
        return made.reshape(*v.shape[:-count], *made.shape[-count:])

    return Step(lambda v: mb.pad(x=v, pad=amounts, mode=mode), result)


def blocks(d: Draw, x: Array) -> Step:
    form, by = d.whole(0, 5), d.whole(2, 3)
    b, c, h, w = x.shape
    if form == 0 and c % (by * by) == 0:

        def spread(v: torch.Tensor) -> torch.Tensor:
            whole = v.reshape(b, by, by, c // by**2, h, w).permute(0, 3, 4, 1, 5, 2)
            return whole.reshape(b, c // by**2, h * by, w * by)

        return Step(lambda v: mb.depth_to_space(x=v, block_size=by), spread)
    if form == 1 and c % (by * by) == 0:
        return Step(lambda v: mb.pixel_shuffle(x=v, upscale_factor=by), lambda v: F.pixel_shuffle(v, by))
    if h % by or w % by:
        raise ValueError("no whole blocks")
    if form == 2:
        return Step(
            lambda v: mb.space_to_depth(x=v, block_size=by),
            lambda v: v.reshape(b, c, h // by, by, w // by, by).permute(0, 3, 5, 1, 2, 4).reshape(
                b, c * by * by, h // by, w // by),
        )  # fmt: skip
    if form == 3:
        return Step(
            lambda v: mb.pixel_unshuffle(x=v, downscale_factor=np.uint32(by)), lambda v: F.pixel_unshuffle(v, by)
        )

    def spatial(v: torch.Tensor) -> torch.Tensor:
        whole = v.reshape(b, c, h // by, by, w // by, by).permute(3, 5, 0, 1, 2, 4)
        return whole.reshape(b * by * by, c, h // by, w // by)

    return Step(lambda v: mb.space_to_batch(x=v, block_shape=[by, by], paddings=[[0, 0], [0, 0]]), spatial)


def picture(d: Draw, x: Array) -> Step:
    """Resizing: Core ML's conventions are PyTorch's with corners aligned or not, or spelled out here."""
    form, (h, w) = d.whole(0, 4), x.shape[-2:]
    if form == 0:
        top, bottom = d.whole(0, (h - 1) // 2), d.whole(0, (h - 1) // 2)
        left, right = d.whole(0, (w - 1) // 2), d.whole(0, (w - 1) // 2)
        return Step(lambda v: mb.crop(x=v, crop_height=[top, bottom], crop_width=[left, right]),
                    lambda v: v[..., top : h - bottom, left : w - right].clone())  # fmt: skip
    if form == 1:
        factors = [d.whole(1, 3), d.whole(1, 3)]
        return Step(
            lambda v: mb.upsample_nearest_neighbor(
                x=v, scale_factor_height=float(factors[0]), scale_factor_width=float(factors[1])),
            lambda v: v.repeat_interleave(factors[0], -2).repeat_interleave(factors[1], -1),
        )  # fmt: skip
    if form == 2:
        factors, aligned = [d.whole(1, 3), d.whole(1, 3)], d.flag()
        return Step(
            lambda v: mb.upsample_bilinear(x=v, scale_factor_height=float(factors[0]),
                                           scale_factor_width=float(factors[1]), align_corners=aligned),
            lambda v: F.interpolate(
                v, scale_factor=[float(f) for f in factors], mode="bilinear", align_corners=aligned),
        )  # fmt: skip
    sizes, mode = (
        several(d, 2, 1, 9),
        d.of("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS"),
    )
    return Step(
        lambda v: mb.resize_bilinear(x=v, target_size_height=sizes[0], target_size_width=sizes[1], sampling_mode=mode),
        lambda v: torch.tensor(resized(v.numpy(), sizes, mode)),
    )


def positions(size: int, wanted: int, mode: str) -> Array:
    """Where the elements of a resized dimension lie in it, as the comments of coremltools' resize_bilinear say."""
    n, most = np.arange(wanted, dtype=np.float64), size - 1
    if mode == "STRICT_ALIGN_CORNERS" or (mode == "ALIGN_CORNERS" and wanted > 1):
        return n * most / (wanted - 1) if wanted > 1 else np.zeros(1)
    if mode == "ALIGN_CORNERS":
        return np.array([most / 2])
    if mode == "DEFAULT":
        return n * ((size - size / wanted) / (wanted - 1) if wanted > 1 else 0.0)
    if mode == "OFFSET_CORNERS":
        step = (size - 1) / wanted
        return (n + 0.5) * step
    return np.clip((n + 0.5) * size / wanted - 0.5, 0, most)


def resized(x: Array, sizes: list[int], mode: str) -> Array:
    """The last two dimensions interpolated linearly."""
    for axis, wanted in zip((-2, -1), sizes, strict=True):
        size = x.shape[axis]
        at = np.clip(positions(size, wanted, mode), 0, size - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if n == x.ndim + axis else 1 for n in range(x.ndim)])
        x = x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, size - 1), axis) * share
    return x.astype(np.float32)


def product(d: Draw, x: Array) -> Step:
    form, k = d.whole(0, 2), x.shape[-1]
    if form == 0 and x.ndim <= 3:
        weight, bias = d.floats(d.whole(1, 6), k), None
        bias = d.floats(weight.shape[0])
        return Step(lambda v: mb.linear(x=v, weight=weight, bias=bias),
                    lambda v: F.linear(v, torch.tensor(weight), torch.tensor(bias)))  # fmt: skip
    if form == 1 and x.ndim == 4:
        other = d.floats(x.shape[0], k, x.shape[2], d.whole(1, 4))
        return Step(
            lambda v: mb.einsum(values=(v, other), equation="nchw,nwhu->nchu"),
            lambda v: torch.einsum("nchw,nwhu->nchu", v, torch.tensor(other)),
        )
    turned, columns = d.flag(), d.whole(1, 6)
    y = d.floats(*((columns, k) if turned else (k, columns)))
    return Step(lambda v: mb.matmul(x=v, y=y, transpose_y=turned),
                lambda v: v @ torch.tensor(y.T if turned else y))  # fmt: skip


def recurrent(d: Draw, x: Array) -> Step:
    """(steps, batch, features), as PyTorch has it; gates are in another order."""
    name, (_, batch, features), hidden, whole = d.of("lstm", "gru", "rnn"), x.shape, d.whole(1, 5), d.flag()
    both = name == "lstm" and d.flag(0.4)
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[name]
    held = [[d.floats(gates * hidden, n) * np.float32(0.4) for n in (features, hidden)] for _ in range(1 + both)]
    biases = [d.floats(gates * hidden) * np.float32(0.4) for _ in held]
    start = [d.floats(batch, hidden * len(held)) * np.float32(0.5) for _ in range(2)]
    # PyTorch's LSTM: input, forget, cell, output; Core ML's: input, forget, output, cell. GRU: reset, update, new; Core
    # ML's: reset, output, update, where PyTorch has a bias for the state's product of its own.
    order = {"lstm": (0, 1, 3, 2), "gru": (0, 2, 1), "rnn": (0,)}[name]
    sorted_ = lambda a: np.concatenate([np.split(a, gates)[n] for n in order])  # noqa: E731
    said: dict[str, Any] = {"initial_h": start[0], "output_sequence": whole}
    for end, (w, r), bias in zip(("", "_back"), held, biases, strict=False):
        said |= {f"weight_ih{end}": sorted_(w), f"weight_hh{end}": sorted_(r), f"bias{end}": sorted_(bias)}
    if name == "lstm":
        said |= {"initial_c": start[1], "direction": "bidirectional" if both else "forward"}
    module = getattr(torch.nn, name.upper())(features, hidden, bidirectional=both)
    with torch.no_grad():
        for end, (w, r), bias in zip(("", "_reverse"), held, biases, strict=False):
            for part_, value in (("weight_ih", w), ("weight_hh", r), ("bias_ih", bias), ("bias_hh", bias * 0)):
                getattr(module, f"{part_}_l0{end}").copy_(torch.tensor(value))

    def states(value: Array) -> torch.Tensor:
        return torch.tensor(value.reshape(batch, len(held), hidden).transpose(1, 0, 2).copy())

    def result(v: torch.Tensor) -> torch.Tensor:
        first = (states(start[0]), states(start[1])) if name == "lstm" else states(start[0])
        steps, last = module(v, first)
        last = last[0] if name == "lstm" else last
        return steps if whole else last.permute(1, 0, 2).reshape(1, batch, -1)

    return Step(lambda v: getattr(mb, name)(x=v, **said)[0], result)


MAKERS: tuple[tuple[Maker, range], ...] = (
    (convolution, range(3, 6)), (convolution, range(3, 5)), (deconvolution, range(3, 5)), (pool, range(3, 6)),
    (normalization, range(3, 5)), (activation, range(2, 5)), (element, range(1, 6)), (binary, range(1, 6)),
    (reduction, range(2, 6)), (softmax, range(1, 5)), (picking, range(1, 5)), (shape_of, range(1, 5)),
    (part, range(1, 5)), (border, range(2, 5)), (blocks, range(4, 5)), (picture, range(4, 5)), (product, range(2, 5)),
    (recurrent, range(3, 4)),
)  # fmt: skip
STEEP = (element, binary, reduction, picking)
