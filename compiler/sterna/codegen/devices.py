"""Source for devices that have a compiler of their own: loop programs to a file of OpenCL C, CUDA C++ or Metal.

A kernel's parameters are pointers to its inputs and outputs by slot of the call record, then params, open sizes
(int64), scratch for every thread that runs tasks, or for every group of them, the status that a `Require` sets, and the
number of tasks. In OpenCL C, whose buffers the host cannot point into, inputs, outputs and params are each a buffer and
a first byte there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.codegen.dialects import dialect
from sterna.codegen.generators import KernelSet
from sterna.codegen.render import render_template
from sterna.codegen.source import Printed, gather, helper_facts, print_exchanging, print_kernels
from sterna.loops.program import Function
from sterna.targets.target import Target

#: The template of a file, by dialect.
TEMPLATES = {"opencl": "opencl/kernels.cl.j2", "cuda": "cuda/kernels.cu.j2", "metal": "metal/kernels.metal.j2"}


def source(kernels: KernelSet, target: Target, printed: Sequence[Printed] = ()) -> str:
    """The kernels as one file."""
    d = dialect(target)
    printed = printed or print_kernels(kernels.functions, target, kernels.comments)
    exchanging = print_exchanging(kernels.exchanging, target)
    gather([*printed, *exchanging], d)
    return render_template(
        TEMPLATES[target.dialect],
        model=kernels.model,
        kernels=[(p.text, parameters(f)) for p, f in zip(printed, kernels.functions, strict=True)],
        exchanging=[(p.text, parameters(f)) for p, (_, f) in zip(exchanging, kernels.exchanging, strict=True)],
        helpers=helper_facts(d),
        headers=sorted(d.headers),
        target=target,
    )


@dataclass(frozen=True)
class Parameter:
    """An input or output of a kernel: the qualifier of its bytes, and its name."""

    qualifier: str
    name: str


def parameters(function: Function) -> list[Parameter]:
    """The parameters that hold inputs and outputs, one for every slot of the call record."""
    inputs = sorted({b.slot for b in function.inputs})
    outputs = sorted({b.slot for b in function.outputs})
    return [*(Parameter("const ", f"in{slot}") for slot in inputs), *(Parameter("", f"out{slot}") for slot in outputs)]
