"""The axes along which the threads of a task are numbered."""

from __future__ import annotations

from typing import Literal, get_args

ThreadAxis = Literal["thread.x", "thread.y", "thread.z"]
THREADS: tuple[ThreadAxis, ...] = get_args(ThreadAxis)
#: What a schedule binds an axis to whose iterations are a thread's own, run side by side.
VIRTUAL = "vthread"
