"""C99 and nothing else: what any compiler of C builds."""

from __future__ import annotations

from sterna.codegen.dialects.c_family import ROLLED, CFamily


class C99(CFamily):
    """A vector of the loop program becomes one scalar statement for each lane."""

    name = "plain"
    vectors = False
    lowerings = "c"
    rolled = ROLLED
