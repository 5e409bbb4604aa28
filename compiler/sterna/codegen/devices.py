"""Source for devices that have a compiler of their own: loop programs to a file of OpenCL C or CUDA C++.

A kernel's parameters are pointers to its inputs and outputs by slot of the call record, then params, open sizes
(int64), scratch for every thread that runs tasks, or for every group of them, the status that a `Require` sets, and the
number of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.dialects import dialect
from sterna.codegen.generators import KernelSet
from sterna.codegen.render import render_template
from sterna.codegen.source import Printed, gather, helper_facts, print_kernel
from sterna.loops.program import Function
from sterna.targets.target import Target

#: The template of a file, by dialect.
TEMPLATES = {"opencl": "opencl/kernels.cl.j2", "cuda": "cuda/kernels.cu.j2"}


def source(kernels: KernelSet, target: Target, printed: Sequence[Printed] = ()) -> str:
    """The kernels as one file."""
    d = dialect(target)
    if not printed:
        comments = kernels.comments or [()] * len(kernels.functions)
        printed = [print_kernel(f, dialect(target), c) for f, c in zip(kernels.functions, comments, strict=True)]
    gather(printed, d)
    return render_template(
        TEMPLATES[target.dialect],
        model=kernels.model,
        kernels=[(p.text, _parameters(f)) for p, f in zip(printed, kernels.functions, strict=True)],
        helpers=helper_facts(d),
        target=target,
    )


def _parameters(function: Function) -> list[str]:
    """The parameters that hold inputs and outputs, a name for every slot of the call record."""
    inputs = sorted({b.slot for b in function.inputs})
    outputs = sorted({b.slot for b in function.outputs})
    return [*(f"const uint8_t *in{slot}" for slot in inputs), *(f"uint8_t *out{slot}" for slot in outputs)]
