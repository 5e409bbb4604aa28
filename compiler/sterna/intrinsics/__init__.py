"""Hardware intrinsics: what an instruction computes, as a tensor expression, and how each generator writes it.

A target names those that it has among its capabilities (`int_dot`), the schedule step `tensorize` matches one to the
innermost loops of a stage, and a test holds every lowering to its behaviour on the machines that can run it.
"""

from __future__ import annotations

from sterna.intrinsics.declaration import Intrinsic
from sterna.intrinsics.dot import DOT_PRODUCTS

#: Every intrinsic, by the name that targets and schedules give it.
INTRINSICS: dict[str, Intrinsic] = {i.name: i for i in DOT_PRODUCTS}

__all__ = ["INTRINSICS", "Intrinsic"]
