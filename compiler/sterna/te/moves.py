"""Kernels that only move truth values, as kernels that move bytes.

In vectors a truth value is a mask, which takes instructions to make of bytes and to store as bytes; what is only moved
need not become one.
"""

from __future__ import annotations

from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Kernel, Tensor

#: What a truth value is in memory.
BYTE = "uint8"


def as_bytes(kernel: Kernel) -> Kernel:
    """The kernel over bytes, where every stage only chooses among truth values; else the kernel itself."""
    if not kernel.stages or not all(_only_moves(t) for t in kernel.stages):
        return kernel
    new: dict[str, Tensor] = {}
    for t in (*kernel.inputs, *kernel.params, *kernel.stages):
        dtype = BYTE if t.dtype == "bool" else t.dtype
        body = None if t.body is None else _byte(t.body, new)
        new[t.name] = Tensor(t.name, t.shape, dtype, t.axes, body, t.must_hold)
    return Kernel(
        kernel.name,
        tuple(new[t.name] for t in kernel.inputs),
        tuple(new[t.name] for t in kernel.params),
        tuple(new[t.name] for t in kernel.outputs),
    )


def _only_moves(stage: Tensor) -> bool:
    """Whether a stage chooses among truth values; one that must hold is asked for its own."""
    return stage.dtype == "bool" and stage.body is not None and not stage.must_hold and _moved(stage.body)


def _moved(value: Expr) -> bool:
    """Whether a value is one of some elements and constants, whichever they are."""
    # Positions that are data would be read from tensors that other loads take for bytes.
    if isinstance(value, E.Select):
        decided = all(isinstance(n, (E.IndexValue, E.Const, E.Compare, E.Binary)) for n in E.walk(value.condition))
        return decided and not E.loads(value.condition) and _moved(value.a) and _moved(value.b)
    return isinstance(value, E.Const) or (isinstance(value, E.Load) and len(E.loads(value)) == 1)


def _byte(value: Expr, new: dict[str, Tensor]) -> Expr:
    if isinstance(value, E.Select):
        return E.select(value.condition, _byte(value.a, new), _byte(value.b, new))
    if isinstance(value, E.Const):
        return E.const(int(value.value), BYTE)
    assert isinstance(value, E.Load)
    return value.changed(tensor=new[value.tensor.name], dtype=BYTE)
