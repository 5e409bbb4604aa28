"""What the tuner's benchmarks measure by."""

from __future__ import annotations

from sterna.targets.target import Target
from sterna.tuning.counted import Counting
from sterna.tuning.measure import Local, Measurer


def measurer(on: str, target: Target) -> Measurer:
    """What measures on a device, as --on has it, or "counted": instructions under qemu-user."""
    return Counting(target, on) if on == "counted" else Local(on)
