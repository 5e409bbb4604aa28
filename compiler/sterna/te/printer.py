"""Tensor expressions as text: what `--dump-after te` shows."""

from __future__ import annotations

from sterna.te.tensor import Kernel, Tensor
from sterna.te.text import print_expr


def print_kernel(kernel: Kernel) -> str:
    """A kernel's stages, one line each."""
    lines = [f"kernel {kernel.name}"]
    lines += [f"  input {_type(t)}" for t in kernel.inputs]
    lines += [f"  param {_type(t)}" for t in kernel.params]
    for carry in kernel.scan.carries if kernel.scan is not None else ():
        way = "from the last step" if kernel.scan is not None and kernel.scan.reverse else "from the first step"
        lines.append(f"  state {_type(carry.previous)}: {carry.start.name}, then {carry.next.name}, {way}")
    for t in kernel.stages:
        assert t.body is not None
        word = "output" if t in kernel.outputs else "stage"
        lines.append(f"  {word} {t.name}[{', '.join(f'{a.name} < {a.extent}' for a in t.axes)}] = {print_expr(t.body)}")
    return "\n".join(lines) + "\n"


def _type(t: Tensor) -> str:
    return f"{t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]"
