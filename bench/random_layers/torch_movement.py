"""Random layers of PyTorch that take tensors apart, write into them, and change their shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from random_layers.drawing import Draw

#: A layer: a function of a tensor, or a module.
Layer = Callable[[Any], Any]


def tensor(d: Draw, *shape: int) -> Any:
    return torch.from_numpy(d.floats(*shape))


def picking(d: Draw, x: Any) -> Layer:
    """Parts of a tensor."""
    rank, dim = x.dim(), d.axis(x.dim())
    size = x.shape[dim]
    form = d.whole(0, 12)
    index = torch.from_numpy(d.integers(0, size - 1, d.whole(1, 5), dtype="int64"))
    if form == 0:
        key = tuple(
            d.of(slice(None), slice(d.whole(-n, n), d.whole(-n, n + 2), d.whole(1, 3)), d.whole(-n, n - 1), None)
            for n in x.shape[: d.whole(1, rank)]
        )
        return lambda x: x[key]
    if form == 1:
        return lambda x: torch.index_select(x, dim, index)
    if form == 2:
        full = torch.from_numpy(d.integers(0, size - 1, *x.shape, dtype="int64"))
        return lambda x: torch.gather(x, dim, full)
    if form == 3:
        part = d.whole(1, size)
        start = d.whole(0, size - part)
        return lambda x: x.narrow(dim, start, part)
    if form == 4:
        count = d.whole(1, size)
        which = d.whole(0, -(-size // -(-size // count)) - 1)
        return lambda x: torch.chunk(x, count, dim)[which]
    if form == 5:
        count = d.whole(1, size)
        return lambda x: torch.tensor_split(x, count, dim)[-1]
    if form == 6:
        k, largest = d.whole(1, size), d.flag()
        return lambda x: torch.topk(x, k, dim, largest=largest).values
    if form == 7:
        down, which = d.flag(), d.of(0, 1)
        return lambda x: torch.sort(x, dim, descending=down, stable=True)[which]
    if form == 8:
        part, step = d.whole(1, size), d.whole(1, 3)
        return lambda x: x.unfold(dim, part, step)
    if form == 9:
        offset = d.whole(-1, 1)
        name = d.of("tril", "triu", "diagonal", "diag_embed")
        return lambda x: getattr(torch, name)(x, offset)
    if form == 10:
        first = torch.from_numpy(d.integers(0, x.shape[0] - 1, 3, dtype="int64"))
        last = torch.from_numpy(d.integers(-x.shape[-1], x.shape[-1] - 1, 2, 1, dtype="int64"))
        return lambda x: x[first, ..., last]
    if form == 11:
        k = d.whole(1, size)
        return lambda x: torch.kthvalue(x, k, dim).values
    weights = d.flag()
    return lambda x: torch.where(x > 0, x if weights else x * 2, torch.full_like(x, 0.25))


def writing(d: Draw, x: Any) -> Layer:
    """Elements that are set, in place or not."""
    dim = d.axis(x.dim())
    size = x.shape[dim]
    index = torch.from_numpy(d.random.permutation(size)[: d.whole(1, size)].astype("int64"))
    sizes = list(x.shape)
    sizes[dim] = len(index)
    source = tensor(d, *sizes)
    full = torch.from_numpy(d.integers(0, size - 1, *sizes, dtype="int64"))
    form = d.whole(0, 8)
    if form == 0:
        return lambda x: x.index_add(dim, index, source)
    if form == 1:
        return lambda x: x.index_copy(dim, index, source)
    if form == 2:
        return lambda x: x.index_fill(dim, index, 1.5)
    if form == 3:
        return lambda x: x.scatter_add(dim, full, source)
    if form == 4:
        how, own = d.of("sum", "prod", "mean", "amax", "amin"), d.flag()
        return lambda x: x.scatter_reduce(dim, full, source, how, include_self=own)
    if form == 5:
        limit = d.real(-1, 1)
        return lambda x: x.masked_fill(x > limit, -2.0)
    if form == 6:
        row = d.whole(0, x.shape[0] - 1)

        def in_place(x: Any) -> Any:
            y = x.clone()
            y[row] = 2.0
            y[..., 0] += 1
            return y

        return in_place
    if form == 7:
        at, step = d.whole(0, size - 1), d.whole(1, 2)
        return lambda x: torch.slice_scatter(
            x,
            torch.zeros_like(x.narrow(dim, at, size - at).index_select(dim, torch.arange(0, size - at, step))),
            dim,
            at,
            size,
            step,
        )
    place = torch.from_numpy(d.integers(0, x.shape[0] - 1, 3, dtype="int64"))
    values = tensor(d, 3, *x.shape[1:])
    return lambda x: x.index_put((place,), values, accumulate=True)


def shape_of(d: Draw, x: Any) -> Layer:
    rank, dim = x.dim(), d.axis(x.dim())
    form = d.whole(0, 14)
    if form == 0:
        order = d.order(rank)
        return lambda x: x.permute(order)
    if form == 1:
        return lambda x: x.reshape(x.shape[0], -1)
    if form == 2:
        start = d.whole(0, rank - 1)
        return lambda x: x.flatten(start)
    if form == 3:
        axes = d.axes(rank)
        return lambda x: x.flip(axes)
    if form == 4:
        shifts, dims = [d.whole(-3, 3) for _ in range(2)], [d.axis(rank) for _ in range(2)]
        return lambda x: torch.roll(x, shifts, dims)
    if form == 5:
        where = d.whole(-rank - 1, rank)
        return lambda x: x.unsqueeze(where)
    if form == 6:
        times = [d.whole(1, 2) for _ in range(d.whole(rank, rank + 1))]
        return lambda x: x.repeat(times)
    if form == 7:
        times = d.whole(1, 3)
        return lambda x: torch.repeat_interleave(x, times, dim)
    if form == 8:
        widths = [d.whole(-1, 2) for _ in range(2 * d.whole(1, rank))]
        value = d.real(-1, 1)
        return lambda x: F.pad(x, widths, value=value)
    if form == 9 and rank > 2:
        mode = d.of("reflect", "replicate", "circular")
        widths = [d.whole(0, 2) for _ in range(2 * min(rank - 2, 3))]
        return lambda x: F.pad(x, widths, mode=mode)
    if form == 10:
        other = d.axis(rank)
        return lambda x: torch.cat([x, x * 2, x[:1].expand_as(x)], other)
    if form == 11:
        other = d.whole(-rank - 1, rank)
        return lambda x: torch.stack([x, -x], other)
    if form == 12:
        one, two = d.axis(rank), d.axis(rank)
        return lambda x: x.transpose(one, two).contiguous()
    if form == 13:
        one, two = d.axis(rank), d.axis(rank)
        return lambda x: x.movedim(one, two)
    turns = d.whole(-1, 3)
    return lambda x: torch.rot90(x, turns, (0, rank - 1))
