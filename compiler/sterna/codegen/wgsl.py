"""WGSL: loop programs to one file, whose kernels are entry points of one module.

A kernel's bindings, all of group 0: 0, the words that kernels write, in which inputs, outputs and scratch lie; 1, the
constants; 2, the call: how many tasks there are, where in binding 0 the status and scratch begin and where in binding 1
the kernel's constants do, 0, then where each input and output begins, all in words of 32 bits, and the open sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.dialects import dialect
from sterna.codegen.dialects.c_family import short
from sterna.codegen.dialects.wgsl import OPERANDS, PARAMS, SCRATCH, STATUS, TASKS, ZERO
from sterna.codegen.generators import KernelSet
from sterna.codegen.render import render_template
from sterna.codegen.source import KernelText, Printed, gather, print_exchanging, print_kernels
from sterna.ir import dtypes
from sterna.targets.target import Target

#: Invocations of a workgroup where each runs tasks of its own; every adapter has as many.
ALONE = 64
#: Words of a call, by name.
CALL = {"tasks": TASKS, "status": STATUS, "scratch": SCRATCH, "params": PARAMS, "zero": ZERO, "operands": OPERANDS}


def source(kernels: KernelSet, target: Target, printed: Sequence[Printed] = ()) -> str:
    """The kernels as one file."""
    d = dialect(target)
    printed = printed or print_kernels(kernels.functions, target, kernels.comments)
    exchanging = print_exchanging(kernels.exchanging, target)
    gather(printed, d)
    headers = sorted(d.headers)  # of devices that need not have more
    gather(exchanging, d)
    text = render_template(
        "wgsl/kernels.wgsl.j2",
        model=kernels.model,
        kernels=[(p.text, workgroup(p.text)) for p in printed],
        exchanging=[(p.text, workgroup(p.text)) for p in exchanging],
        helpers=[_facts(*h, d.type(h[1])) for h in sorted(d.helpers)],
        headers=headers,
        call=CALL,
        target=target,
    )
    # A page downloads this. Indentation is a sixth of it, and the same statements at two depths do not compress as one.
    return "".join(line.lstrip(" ") for line in text.splitlines(keepends=True))


def workgroup(kernel: KernelText) -> tuple[int, int, int]:
    """Invocations of a workgroup: the threads of a task, or as many as have tasks of their own."""
    if kernel.threads:
        x, y, z = kernel.threads
        return x, y, z
    return (min(ALONE, kernel.n_tasks) if kernel.uses_tasks else 1, 1, 1)


def _facts(name: str, dtype: str, lanes: int, type_: str) -> dict[str, object]:
    """What the template of a helper function is told."""
    low, high = dtypes.limits(dtype) if dtypes.is_integer(dtype) else (0, 0)
    digits = high.bit_length() - 24
    return {
        "name": name,
        "function": f"{name}_{short(dtype)}",
        "dtype": dtype,
        "type": type_,
        "words": lanes,
        "bits": dtypes.bits(dtype),
        "wide": dtypes.is_integer(dtype) and dtypes.bits(dtype) == 64,
        "float": dtypes.is_float(dtype),
        "signed": dtypes.is_integer(dtype) and dtypes.is_signed(dtype),
        "low": low,
        "high": high,
        # The greatest float32 that the type holds.
        "top": high >> digits << digits if digits > 0 else high,
    }
