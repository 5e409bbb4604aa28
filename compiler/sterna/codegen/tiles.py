"""Operations on tiles: which function a statement is a call of, whatever the language."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.errors import error
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.loops.program import Buffer, Stmt
from sterna.targets.target import Target
from sterna.te import expr as E


@dataclass(frozen=True)
class TileOperation:
    """One of an intrinsic's functions, applied: `operation` is its name for `Intrinsic.name_in`.

    Args:
        tiles: the registers that it takes first.
        memory: where a tile begins that is loaded or stored, None if it does neither; stride: bytes from row to row.
        operands: of a product of what lies in memory, what is multiplied.
    """

    intrinsic: Intrinsic
    operation: str
    tiles: tuple[int, ...] = ()
    memory: tuple[Buffer, Int] | None = None
    stride: int = 0
    operands: tuple[E.Load, ...] = ()


def tile_operation(held: P.Tiles | None, s: Stmt) -> TileOperation | None:
    """What a statement on tiles does, None for any other; `held` says which registers hold them."""
    if isinstance(s, P.Store) and s.rows:
        assert held is not None
        assert isinstance(s.value, P.Read)
        stride = s.pitch * dtypes.size(s.buffer.dtype)
        return TileOperation(held.intrinsic, "store", (held.registers[s.value.variable],), (s.buffer, s.index), stride)
    if not isinstance(s, (P.Let, P.Assign)) or not s.variable.rows:
        return None
    assert held is not None
    number, value = held.registers[s.variable], s.value
    if isinstance(value, E.Load):
        assert isinstance(value.tensor, Buffer)
        stride = value.pitch * dtypes.size(value.dtype)
        return TileOperation(held.intrinsic, "load", (number,), (value.tensor, value.indices[0]), stride)
    if isinstance(value, P.Apply):
        tiles = (held.registers[e.variable] for e in value.operands if isinstance(e, P.Read))
        lying = tuple(e for e in value.operands if isinstance(e, E.Load))
        return TileOperation(value.intrinsic, "multiply", tuple(tiles), operands=lying)
    return TileOperation(held.intrinsic, "zero", (number,))


def refuse_without_tiles(intrinsic: Intrinsic, target: Target) -> None:
    """Refuses a target that lacks what a schedule multiplies tiles by: a variant of a bundle for a lesser machine.

    Raises:
        SternaError: E0203.
    """
    if not target.has(intrinsic):
        raise error(
            "E0203",
            f"the target {target.name} has no {intrinsic.name}, which the schedules of this bundle use",
            fix="compile for that target by itself",
        )
