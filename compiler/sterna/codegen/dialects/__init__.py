"""The languages that kernels are printed in, by the names that targets ask for them by."""

from __future__ import annotations

from sterna.codegen.dialects.c99 import C99
from sterna.codegen.dialects.c_family import CFamily
from sterna.codegen.dialects.cuda import Cuda
from sterna.codegen.dialects.metal import Metal
from sterna.codegen.dialects.opencl import OpenCL
from sterna.codegen.dialects.packed import Packed
from sterna.codegen.dialects.vector_c import VectorC
from sterna.codegen.dialects.wgsl import Wgsl
from sterna.targets.target import Target

DIALECTS: dict[str, type[CFamily]] = {
    dialect.name: dialect for dialect in (C99, Packed, VectorC, OpenCL, Cuda, Metal, Wgsl)
}


def dialect(target: Target) -> CFamily:
    """A new dialect for one file, as the target's description asks for."""
    return DIALECTS[target.dialect](target)
