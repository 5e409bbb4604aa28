"""Schedules as data: their steps as JSON, and applied again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sterna.errors import Diagnostic, SternaError
from sterna.intrinsics import INTRINSICS, Intrinsic
from sterna.ir.memory import Memory
from sterna.schedule.decisions import Step
from sterna.schedule.schedule import Schedule
from sterna.te.tensor import Kernel

#: The methods of `Schedule` that are steps.
PRIMITIVES = (
    "split",
    "fuse",
    "reorder",
    "unroll",
    "vectorize",
    "by_lane",
    "prefetch",
    "tensorize",
    "partition",
    "clip",
    "parallel",
    "bind",
    "across",
    "inline",
    "compute_at",
    "cache_read",
    "cache_write",
    "recompute",
    "fold",
    "permute",
    "pad_rows",
    "swizzle",
    "pipeline",
    "as_matrices",
    "stride",
    "online",
    "online_in_matrices",
    "transfer",
    "rfactor",
    "from_tiles",
    "by_last_tasks",
    "by_runs",
    "gather",
    "fill_up",
    "pack",
    "narrow",
    "offset",
    "couple",
    "negate",
)


def apply(
    kernel: Kernel,
    steps: Iterable[Step],
    intrinsics: Mapping[str, Intrinsic] = INTRINSICS,
    memories: Sequence[Memory] = (),
) -> Schedule:
    """A schedule of these steps, for a target with these intrinsics and memories.

    Raises:
        SternaError: E0301, an unknown step; E0302, one that is illegal here.
    """
    s = Schedule(kernel, intrinsics, memories)
    for step in steps:
        if step.primitive not in PRIMITIVES:
            title, where = f"unknown schedule primitive {step.primitive}", (f"kernel {kernel.name}",)
            raise SternaError(Diagnostic("E0301", title, where, f"one of {', '.join(PRIMITIVES)}"))
        arguments: list[Any] = list(step.arguments)
        if step.primitive == "pack":
            arguments = [dict(arguments[0]), [(d, p) for d, p in arguments[1]]]
        getattr(s, step.primitive)(step.stage, *arguments)
    return s


def to_json(steps: Iterable[Step]) -> str:
    """Steps as text."""
    return json.dumps([[s.primitive, s.stage, *s.arguments] for s in steps])


def from_json(text: str) -> tuple[Step, ...]:
    """Steps from text."""
    return tuple(Step(primitive, stage, tuple(arguments)) for primitive, stage, *arguments in json.loads(text))
