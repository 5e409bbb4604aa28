"""The accelerator of docs/targets.md: its description and its header, and schedules that use it."""

from __future__ import annotations

import re
from pathlib import Path

from sterna.ir.integer import Int
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.tools import ROOT

NAME = "toy.mac4"


def texts() -> dict[str, str]:
    """The files of the page, by name."""
    page = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    return dict(re.findall(r"<!-- ([\w.]+) -->\n```\w+\n(.*?)```", page, re.DOTALL))


def toy(folder: Path, *changes: tuple[str, str]) -> Target:
    """The target, with its files in a folder; `changes` replace parts of its description."""
    files = texts()
    for old, new in changes:
        assert old in files["toy.toml"]
        files["toy.toml"] = files["toy.toml"].replace(old, new)
    for name, text in files.items():
        (folder / name).write_text(text)
    return load_target(str(folder / "toy.toml"))


def matrix_product(m: int, n: int, depth: int) -> Kernel:
    """x w of bytes, and a bias."""
    x, w, b = (
        placeholder("x", (m, depth), "int8"),
        placeholder("w", (depth, n), "int8"),
        placeholder("b", (n,), "int32"),
    )
    k = reduce_axis("k", depth)
    acc = compute("acc", (m, n), lambda i, j: total(E.cast(x[i, k.var], "int32") * E.cast(w[k.var, j], "int32"), k))
    return Kernel("product", (x,), (w, b), (compute("out", (m, n), lambda i, j: acc[i, j] + b[j]),))


def turned(m: int, n: int, depth: int, x_turned: bool, w_turned: bool, swapped: bool) -> Kernel:
    """A product whose operands lie in either order of dimensions, multiplied in either order."""
    x = placeholder("x", (depth, m) if x_turned else (m, depth), "int8")
    w = placeholder("w", (n, depth) if w_turned else (depth, n), "int8")
    k = reduce_axis("k", depth)

    def element(i: Int, j: Int) -> E.Expr:
        a = x[k.var, i] if x_turned else x[i, k.var]
        b = w[j, k.var] if w_turned else w[k.var, j]
        pair = [E.cast(e, "int32") for e in ((b, a) if swapped else (a, b))]
        return total(pair[0] * pair[1], k)

    return Kernel("turned", (x,), (w,), (compute("out", (m, n), element),))


def pointwise(height: int, width: int, channels: int, results: int) -> Kernel:
    """A convolution of 1 x 1, of bytes."""
    x, w = placeholder("x", (height, width, channels), "int8"), placeholder("w", (channels, results), "int8")
    k = reduce_axis("k", channels)

    def element(h: Int, i: Int, j: Int) -> E.Expr:
        return total(E.cast(x[h, i, k.var], "int32") * E.cast(w[k.var, j], "int32"), k)

    acc = compute("acc", (height, width, results), element, axes=("h", "i", "j"))
    out = compute("out", (height, width, results), lambda h, i, j: E.maximum(acc[h, i, j], 0))
    return Kernel("pointwise", (x,), (w,), (out,))


def staged(kernel: Kernel, target: Target, *, x: str = "pad", w: str = "pad", rows: int = 4) -> Schedule:
    """Blocks of 4 x 4 x 4, of operands that are copied to memories while others go on; "" is none."""
    s = Schedule(kernel, target.known_intrinsics, target.memories)
    place = s.split("out", "i", rows)[0]
    s.compute_at("acc", "out", place, "stack")
    copies = [(s.cache_read(tensor, "acc"), memory) for tensor, memory in (("x", x), ("w", w)) if memory]
    s.split("acc", "i", rows)
    s.split("acc", "j", 4)
    s.split("acc", "k", 4)
    outer = [leaf for leaf in s.stages["acc"].leaves if not leaf.endswith(".i")]
    s.reorder("acc", *outer, "i.i", "j.i", "k.i")
    for copy, memory in copies:
        s.compute_at(copy, "acc", "k.o", memory)
        s.transfer(copy, asynchronous=True)
    s.tensorize("acc", "i.i", "j.i", "k.i", NAME)
    return s
