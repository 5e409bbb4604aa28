"""The libraries in XCFrameworks: of a system, of one of its processors, and their objects."""

from __future__ import annotations

import struct
from pathlib import Path

from sterna.package.slices import members, slices

PARTS = {f"{each.name}, {part.processor}": (each, part) for each in slices() for part in each.parts}
"""Every processor of every system, by a name."""

FEATURES = "hw.optional.arm.FEAT_DotProd hw.optional.arm.FEAT_FP16 hw.optional.arm.FEAT_FHM"
"""Of processors since 2019, as the system names them."""


def library(packages: Path, package: str, name: str, system: str) -> Path:
    return packages / package / f"{name}.xcframework" / system / f"{name}.framework" / name


def objects(packages: Path, package: str, name: str, key: str) -> list[bytes]:
    """The objects of a library for a processor; a dynamic library itself."""
    data = of_processor(packages, package, name, key)
    return members(data) if data.startswith(b"!<arch>") else [data]


def of_processor(packages: Path, package: str, name: str, key: str) -> bytes:
    """A library for one of its processors."""
    each, part = PARTS[key]
    data = library(packages, package, name, each.name).read_bytes()
    if data[:4] != b"\xca\xfe\xba\xbe":
        return data
    (count,) = struct.unpack_from(">I", data, 4)
    rows = [struct.unpack_from(">IIIII", data, 8 + 20 * n) for n in range(count)]
    at, size, align = next(
        row[2:] for row in rows if row[0] == {"arm64": 0x0100000C, "x86_64": 0x01000007}[part.processor]
    )
    assert (at % 16384, align) == (0, 14)
    return data[at : at + size]
