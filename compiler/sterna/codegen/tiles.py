"""What both generators ask about tiles."""

from __future__ import annotations

from sterna.errors import error
from sterna.intrinsics import TileIntrinsic
from sterna.targets.target import Target


def refuse_without_tiles(intrinsic: TileIntrinsic, target: Target) -> None:
    """Refuses a target that lacks what a schedule multiplies tiles by: a variant of a bundle for a lesser machine.

    Raises:
        SternaError: E0203.
    """
    if intrinsic.name not in target.int_tile:
        raise error(
            "E0203",
            f"the target {target.name} has no {intrinsic.name}, which the schedules of this bundle use",
            fix="compile for that target by itself, or for one without int_tile",
        )
