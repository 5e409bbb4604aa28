"""Dot products of words: four bytes by four bytes, added to a number of 32 bits, as threads of a GPU have them (PTX's
dp4a, OpenCL C's `dot_acc`, WGSL's `dot4I8Packed`).

Of several lanes each is an instruction of its own; all of them have words on the right that lie side by side.
"""

from __future__ import annotations

from sterna.intrinsics.declaration import Intrinsic
from sterna.intrinsics.dot import dot_product

#: Bytes of a word.
BYTES = 4
#: Sums of one thread whose words on the right are one access.
LANES = (1, 2, 4)
_SIGNS = {"s8": "int8", "u8": "uint8"}


def _dot(left: str, right: str, lanes: int) -> Intrinsic:
    behaviour = dot_product(lanes, BYTES, _SIGNS[left], _SIGNS[right])
    settings, name = {"words": f"{left}_{right}"}, name_of(f"dot4.{left}.{right}", lanes)
    # As PTX has it; other languages make up for it.
    return Intrinsic(name, behaviour, settings=settings, needs=(("sm_61",),), instructions=lanes)


def name_of(name: str, lanes: int) -> str:
    """Of the intrinsic of so many lanes, by that of one."""
    return name if lanes == 1 else f"{name}x{lanes}"


def single(intrinsic: Intrinsic) -> str:
    """The name of the intrinsic of one lane for the same signs; "" of one that is not of words."""
    return f"dot4.{intrinsic.settings['words'].replace('_', '.')}" if intrinsic.of_words else ""


#: Of both signs on either side.
WORD_DOTS: tuple[Intrinsic, ...] = tuple(
    _dot(left, right, lanes) for lanes in LANES for left in _SIGNS for right in _SIGNS
)
