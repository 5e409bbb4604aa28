"""What the templates of a source file are given: the kernels' text, and facts of the helper functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from sterna.codegen.dialects import dialect
from sterna.codegen.dialects.c_family import C_TYPE, CFamily, short
from sterna.codegen.machine import find_idioms
from sterna.codegen.needs import refuse_unwritable
from sterna.codegen.printer import Printer
from sterna.escape import comment
from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.loops.program import Function, held, most
from sterna.targets.features import rounds
from sterna.targets.target import Target


@dataclass(frozen=True)
class KernelText:
    """One kernel as the template needs it."""

    name: str
    comment: tuple[str, ...]
    n_tasks: int
    scratch_bytes: int
    needs_barrier: bool
    uses_tasks: bool
    #: Threads of a task along each axis; empty where there is one.
    threads: tuple[int, ...]
    #: Registers of a thread that hold fragments.
    held: int
    lines: tuple[str, ...]


#: C types that helpers `as_f32` and so on give back.
_RESULTS = {f"as_{short(dtype)}": type_ for dtype, type_ in C_TYPE.items()}


@dataclass(frozen=True)
class Printed:
    """A kernel's text, and what the dialect noted that it needs of a file."""

    text: KernelText
    helpers: tuple[tuple[str, str, int], ...]
    intrinsics: tuple[Intrinsic, ...]
    headers: frozenset[str]

    @property
    def size(self) -> int:
        """Characters, about."""
        return sum(map(len, self.text.lines))


def print_kernel(function: Function, d: CFamily, comments: Sequence[str]) -> Printed:
    """One kernel.

    Args:
        d: a dialect without anything noted in it yet.
    """
    subgroup = 1 if d.target.threads is None else d.target.threads.subgroup
    known = d.threads, d.fragments, d.address_spaces, d.lacks, d.arguments, subgroup, d.last_tasks
    refuse_unwritable(function, f"the dialect {d.name}", *known)
    printer = Printer(d)
    lines = tuple(printer.function(function))
    threads = tuple(printer.threads.values())
    facts = (most(function.n_tasks), function.scratch_bytes, function.has_barriers, printer.uses_tasks, threads)
    text = KernelText(function.name, tuple(map(comment, comments)), *facts, held(function.body), lines)
    return Printed(text, tuple(d.helpers), tuple(d.intrinsics.values()), frozenset(d.headers))


def print_kernels(
    functions: Sequence[Function], target: Target, comments: Sequence[Sequence[str]]
) -> Sequence[Printed]:
    """Kernels with the lines to stand above each, if there are any."""
    above = comments or [()] * len(functions)
    return [print_kernel(f, dialect(target), c) for f, c in zip(functions, above, strict=True)]


def print_exchanging(kernels: Sequence[tuple[int, Function]], target: Target) -> Sequence[Printed]:
    """Kernels for devices whose subgroups have so many threads at least."""
    return [print_kernel(f, dialect(target.with_subgroup(threads)), ()) for threads, f in kernels]


def gather(kernels: Sequence[Printed], dialect: CFamily) -> None:
    """Notes in a dialect what kernels need of the file that they are put into."""
    for kernel in kernels:
        dialect.helpers.update(dict.fromkeys(kernel.helpers))
        dialect.intrinsics.update((i.name, i) for i in kernel.intrinsics)
        dialect.headers |= kernel.headers


def helper_facts(dialect: CFamily) -> list[dict[str, object]]:
    """Helper functions to define: types first, then what others call."""
    rank = {"type": 0, "splat": 1, "select": 2, "to_integer": 3}
    order = sorted(dialect.helpers, key=lambda h: (rank.get(h[0], 4), h))
    return [
        {
            "name": name,
            "dtype": dtype,
            "lanes": lanes,
            "scalar": dialect.type(dtype),
            "short": _stem(dtype, lanes),
            "stem": _stem(dtype, 1),
            "bits": dtypes.bits(dtype),
            "bytes": dtypes.size(dtype) * lanes,
            "mask": f"i{dtypes.bits(dtype)}x{lanes}",
            "float": dtypes.is_float(dtype),
            "signed": dtypes.is_signed(dtype),
            "limits": _limits(name, dtype),
            "result": _RESULTS.get(name, ""),
            "rounds": rounds(dialect.target),
            "idiom": _idiom(dialect.target, name, dtype, lanes),
        }
        for name, dtype, lanes in order
    ]


@dataclass(frozen=True)
class IdiomText:
    """A processor's way of an operation, as C: statements, then an expression, where the preprocessor finds `when`.

    Args:
        parts: of an operand: the expression is of one of them; operands: their names.
    """

    when: str
    header: str
    before: tuple[str, ...]
    expression: str
    parts: int
    operands: str


def _idiom(target: Target, operation: str, dtype: str, lanes: int) -> IdiomText | None:
    """What the body of a helper is on this processor, if it has a way of its own; scalars are mostly left to the
    compiler."""
    fitting = (i for i in find_idioms(target, operation, dtype, lanes) if i.c and (lanes > 1 or i.lanes == 1))
    found = next(fitting, None)
    if found is None:
        return None
    parts = lanes // found.lanes if found.lanes else 1
    operands = {x: x if parts == 1 else f"{x}s.parts[n]" for x in "abc"}
    names = {
        "T": _stem(dtype, lanes) if parts == 1 else "part",
        "S": C_TYPE[dtype],
        "bytes": str(dtypes.size(dtype) * lanes // parts),
        "lanes": str(lanes),
    }
    before, expression = (
        [Template(text).substitute(names, **operands) for text in texts] for texts in (found.c_before, (found.c,))
    )
    used = "".join(x for x in operands if f"${x}" in found.c)
    return IdiomText(found.c_when, found.c_header, tuple(before), expression[0], parts, used)


def idiom_headers(helpers: Sequence[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Headers that helpers need, each with what the preprocessor must find for that."""
    used = [h["idiom"] for h in helpers if isinstance(h["idiom"], IdiomText) and h["idiom"].header]
    return sorted({(i.header, i.when) for i in used if isinstance(i, IdiomText)})


def _stem(dtype: str, lanes: int) -> str:
    return short(dtype) + (f"x{lanes}" if lanes > 1 else "")


def _limits(name: str, dtype: str) -> dict[str, object] | None:
    """For a helper `to_i8` on floats: the integer type, its limits, and the greatest float that converts; whether that
    is the greatest integer, so that clamped floats convert to clamped integers."""
    match = re.fullmatch(r"to_([iu])(\d+)", name)
    if not match:
        return None
    target = ("int" if match[1] == "i" else "uint") + match[2]
    low, high = dtypes.limits(target)
    digits = 24 if dtype == "float32" else 53
    top = (
        high if high.bit_length() <= digits else (high >> (high.bit_length() - digits)) << (high.bit_length() - digits)
    )
    return {
        "type": f"{target}_t",
        "short": f"{match[1]}{match[2]}",
        "low": f"{float(low)!r}",
        "top": f"{float(top)!r}",
        "dtype": target,
        "min": low,
        "max": high,
        "exact": top == high,
    }
