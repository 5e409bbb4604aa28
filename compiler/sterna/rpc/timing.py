"""Runs that a device has timed."""

from __future__ import annotations

import statistics
import struct
from dataclasses import dataclass

from sterna.rpc.frames import Status
from sterna.rpc.functions import ModelFunctions
from sterna.rpc.link import Refused
from sterna_runtime import Bundle

MOST_RUNS = 100_000
_HEAD = struct.Struct("<IIIiiiiQ")
#: What stands for a clock, a temperature, a processor that the device's system does not tell.
_UNKNOWN = (0, -(1 << 31), -1)
Pair = tuple[int | None, int | None]


@dataclass(frozen=True)
class Timing:
    """Runs that a device has timed.

    Args:
        samples: of every run, in their order: nanoseconds, or instructions where `unit` says so.
        kilohertz, millidegrees, processors: before and after; None where the device's system does not tell.
    """

    samples: tuple[int, ...]
    unit: str
    kilohertz: Pair
    millidegrees: Pair
    processors: Pair

    @property
    def median(self) -> float:
        """Of the samples, in their unit."""
        return statistics.median(self.samples)


def parse(data: bytes) -> Timing:
    """From TIME's reply. Raises Refused."""
    samples = int.from_bytes(data[:4], "little")
    if not samples or len(data) != _HEAD.size + 8 * samples:
        raise Refused(Status.LOST, "what the device says of times is malformed")
    _, *numbers, unit = _HEAD.unpack_from(data)
    pairs: list[Pair] = []
    for none, at in zip(_UNKNOWN, (0, 2, 4), strict=True):
        before, after = (None if number == none else number for number in numbers[at : at + 2])
        pairs.append((before, after))
    times = struct.unpack_from(f"<{samples}Q", data, _HEAD.size)
    return Timing(times, "instructions" if unit == 1 else "nanoseconds", pairs[0], pairs[1], pairs[2])


def timed(functions: ModelFunctions, bundle: Bundle, counts: tuple[int, int, int], least: float) -> Timing:
    """Times a bundle of a device. Raises Refused.

    Args:
        counts: runs that are not timed, at least, at most.
        least: seconds that the timed ones take in sum, unless the most comes first.
    """
    return parse(functions.time(bundle.of_runtime()[1], counts, round(least * 1e9)))
