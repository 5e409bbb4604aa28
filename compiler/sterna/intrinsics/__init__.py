"""Hardware intrinsics: what an instruction computes, as a tensor expression, and how each generator writes it.

A target names those that it has among its capabilities (`int_dot`, `float_dot`, `int_tile`, `fragments` and `dots` of
its threads), the step `tensorize` matches one to the innermost loops of a stage, and a test holds every lowering to its
behaviour on the machines that can run it.
"""

from __future__ import annotations

from sterna.intrinsics.declaration import ANY_MEMORY, Form, Intrinsic, Lowering, Place, TileShape, TileUnit
from sterna.intrinsics.dot import DOT_PRODUCTS, FLOAT_DOT_PRODUCTS
from sterna.intrinsics.fragment import FRAGMENT_PRODUCTS
from sterna.intrinsics.tile import TILE_PRODUCTS
from sterna.intrinsics.words import WORD_DOTS

#: Those that multiply vectors of integers, of floats, tiles, fragments of matrices, and words of bytes, by the names
#: that targets and schedules give them.
DOTS: dict[str, Intrinsic] = {i.name: i for i in DOT_PRODUCTS}
FLOAT_DOTS: dict[str, Intrinsic] = {i.name: i for i in FLOAT_DOT_PRODUCTS}
TILES: dict[str, Intrinsic] = {i.name: i for i in TILE_PRODUCTS}
FRAGMENTS: dict[str, Intrinsic] = {i.name: i for i in FRAGMENT_PRODUCTS}
DOTS_OF_WORDS: dict[str, Intrinsic] = {i.name: i for i in WORD_DOTS}
#: Every intrinsic.
INTRINSICS: dict[str, Intrinsic] = {**DOTS, **FLOAT_DOTS, **TILES, **FRAGMENTS, **DOTS_OF_WORDS}

__all__ = [
    "ANY_MEMORY",
    "DOTS",
    "DOTS_OF_WORDS",
    "FLOAT_DOTS",
    "FRAGMENTS",
    "INTRINSICS",
    "TILES",
    "Form",
    "Intrinsic",
    "Lowering",
    "Place",
    "TileShape",
    "TileUnit",
]
