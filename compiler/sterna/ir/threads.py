"""The axes along which the threads of a task are numbered."""

from __future__ import annotations

from typing import Literal, get_args

from sterna.ir.integer import Symbol

ThreadAxis = Literal["thread.x", "thread.y", "thread.z"]
THREADS: tuple[ThreadAxis, ...] = get_args(ThreadAxis)
#: A symbol for the threads along each axis, whatever the loops over them are called.
NUMBER: dict[ThreadAxis, Symbol] = {axis: Symbol(axis, 0, None) for axis in THREADS}
#: What a schedule binds an axis to whose iterations are a thread's own, run side by side.
VIRTUAL = "vthread"
