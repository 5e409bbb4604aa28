"""The C generator: loop programs to files of C.

The printer writes what stands between a kernel's braces; the Jinja templates under `templates/c` own the file, the
kernels' frames and the helper functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.codegen.cut import LEAST, MOST, Cut
from sterna.codegen.dialects import dialect
from sterna.codegen.dialects.c99 import C99
from sterna.codegen.dialects.packed import Packed
from sterna.codegen.dialects.vector_c import VectorC
from sterna.codegen.generators import KernelSet
from sterna.codegen.render import render_template
from sterna.codegen.source import Printed, gather, helper_facts, idiom_headers, print_kernel, print_kernels
from sterna.errors import error
from sterna.loops.program import Function
from sterna.targets.target import Target
from sterna.timing import timed
from sterna.toolchain.compilers import compile_c
from sterna.toolchain.units import Units, WithUnits


def makes(target: Target) -> bool:
    """Whether the target's dialect is one of C's."""
    return target.dialect in (C99.name, Packed.name, VectorC.name)


@dataclass(frozen=True)
class _Unit:
    """A file of C; `ordered`: as of `compile_c`."""

    text: str
    ordered: bool


class Builder(WithUnits):
    """Kernels printed and handed to a C compiler, several in a unit. What `Builder` of `generators` says.

    Raises:
        SternaError: E0203 the target has no machine; from `objects`: E04xx the compiler is missing or failed.
    """

    def __init__(self, model: str, target: Target, compiler: str, kernels: int):
        if not target.triple and compiler == "zig":
            raise error(
                "E0203",
                f"the target {target.name} has no machine to compile for",
                fix="take the generated kernels.c, or name a target with a triple",
            )
        self.model, self.target = model, target
        self.printed: list[Printed] = []
        self._cut: Cut[Printed] = Cut(kernels)
        self._direct = target.static
        self._units = Units[_Unit](lambda unit: compile_c(unit.text, target, compiler, ordered=unit.ordered))

    def add(self, function: Function, comments: Sequence[str]) -> None:
        """The next kernel."""
        with timed("C text"):
            printed = print_kernel(function, dialect(self.target), comments)
            self.printed.append(printed)
            if unit := self._cut.add(printed, printed.size):
                self._begin(unit)

    def objects(self) -> list[bytes]:
        """The object files."""
        with timed("C text"):
            if self._cut.open or not self._direct:
                self._begin(self._cut.open, None if self._direct else self.printed)
        return self._units.results()

    def _begin(self, unit: Sequence[Printed], table: Sequence[Printed] | None = None) -> None:
        text = unit_text(unit, self.target, self.model, table, shared=self._direct or self._cut.closed > 0)
        # Products of small integers have more operands than registers: compilers find a better order.
        ordered = self.target.fills_registers and not any(each.intrinsics for each in unit)
        self._units.add(_Unit(text, ordered), sum(each.size for each in unit))


def source(kernels: KernelSet, target: Target, printed: Sequence[Printed] = ()) -> str:
    """The kernels as one file."""
    printed = printed or print_kernels(kernels.functions, target, kernels.comments)
    direct = target.static  # firmware calls kernels by their names
    return unit_text(printed, target, kernels.model, None if direct else printed, shared=direct)


def generate(functions: Sequence[Function], target: Target, model: str, comments: Sequence[Sequence[str]] = ()) -> str:
    """The source file of a model's kernels: types, helpers, one function per kernel, the exported table.

    Args:
        comments: lines to stand above each kernel: the nodes of the source model.
    """
    return source(KernelSet(model, functions, comments), target)


def generate_units(
    functions: Sequence[Function],
    target: Target,
    model: str,
    comments: Sequence[Sequence[str]],
    least: int = LEAST,
    most: int = MOST,
) -> list[str]:
    """The same kernels as the translation units that they are compiled in; the last holds the table.

    Args:
        least, most: characters of a unit, as of `Cut`.
    """
    kernels = print_kernels(functions, target, comments)
    cut: Cut[Printed] = Cut(len(kernels), least, most)
    units = [unit for each in kernels if (unit := cut.add(each, each.size))]
    texts = [unit_text(unit, target, model, None, shared=True) for unit in units]
    return [*texts, unit_text(cut.open, target, model, kernels, shared=bool(units))]


def unit_text(
    kernels: Sequence[Printed], target: Target, model: str, table: Sequence[Printed] | None, shared: bool
) -> str:
    """One source file: bodies of kernels, and the exported table.

    Args:
        table: all kernels of the model, which may be none; None: another file has the table, or there is none.
        shared: kernels are seen by other files.
    """
    d = dialect(target)
    gather(kernels, d)
    here = {each.text.name for each in kernels}
    declared = [d.function(i) for i in d.intrinsics.values() if not i.template]
    helpers = helper_facts(d)
    return render_template(
        "c/kernels.c.j2",
        model=model,
        kernels=[each.text for each in kernels],
        table=None if table is None else [each.text for each in table],
        elsewhere=[each.text for each in table or () if each.text.name not in here],
        helpers=helpers,
        conditional_headers=idiom_headers(helpers),
        headers=sorted(d.headers),
        intrinsics=[(i, d.operand_types(i)) for i in d.intrinsics.values() if i.template],
        declared=declared,
        features=" ".join(target.cpu_features),
        vector=d.name == VectorC.name,
        target=target,
        shared=shared,
    )
