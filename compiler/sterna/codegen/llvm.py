"""The LLVM generator: loop programs to an object file, in this process.

It renders what the loop program says and leaves the rest to LLVM's optimizer, without its vectorizers: vectors are
those of the program. Nothing is contracted or reassociated. The object has one external symbol, the function that
returns the table of kernels, and needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import llvmlite
import llvmlite.binding as llvm

from sterna import cache as caching
from sterna.cache import Cache, cache_directory
from sterna.codegen.cut import Cut
from sterna.codegen.instructions import InstructionOperand, instruction_text, lowering
from sterna.codegen.llvm_expr import Instructions
from sterna.codegen.llvm_function import FunctionWriter
from sterna.codegen.llvm_machine import data_layout, full_triple, target_machine
from sterna.codegen.llvm_metadata import Metadata
from sterna.codegen.llvm_text import declarations_of, kind, operand_kinds
from sterna.codegen.needs import refuse_unwritable
from sterna.codegen.render import render_template
from sterna.errors import error, internal_error
from sterna.intrinsics import Intrinsic
from sterna.loops.program import ARGUMENTS, Function, most, walk
from sterna.targets.features import widths
from sterna.targets.target import Target
from sterna.timing import timed
from sterna.toolchain.link import export_name
from sterna.toolchain.units import Units, WithUnits
from sterna_runtime.abi import ABI, KERNEL_NEEDS_BARRIER
from sterna_runtime.abi.records import KERNEL, LIBRARY, Record

if TYPE_CHECKING:
    from sterna.codegen.source import Printed


#: Characters that a statement counts for in a unit.
_CHARACTERS = 80


def makes(target: Target) -> bool:
    """Whether LLVM knows the target's machine."""
    return bool(target.llvm_triple)


class Builder(WithUnits):
    """Kernels rendered and compiled, several in a module. What `Builder` of `generators` says."""

    def __init__(self, model: str, target: Target, compiler: str, kernels: int):
        self.model, self.target = model, target
        self.printed: Sequence[Printed] = ()
        self._functions: list[Function] = []
        self._cut: Cut[Function] = Cut(kernels)
        self._direct = target.static
        self._units = Units(lambda text: _object(text, target))

    def add(self, function: Function, comments: Sequence[str]) -> None:
        """The next kernel."""
        self._functions.append(function)
        # A statement is a line, as in C.
        size = _CHARACTERS * sum(1 for _ in walk(function.body))
        if unit := self._cut.add(function, size):
            self._begin(unit, None)

    def objects(self) -> list[bytes]:
        """The object files."""
        if self._cut.open or not self._direct:
            self._begin(self._cut.open, None if self._direct else self._functions)
        return self._units.results()

    def _begin(self, unit: Sequence[Function], table: Sequence[Function] | None) -> None:
        with timed("LLVM assembly"):
            text = module_text(unit, self.target, self.model, table, shared=self._direct or self._cut.closed > 0)
        self._units.add(text, len(text))


def compile_module(functions: Sequence[Function], target: Target, model: str) -> bytes:
    """The object file of a model's kernels, in the order of the table that `sterna_<model>_library` returns.

    The same programs give the same bytes; an object made before is taken from the cache.
    """
    with timed("LLVM assembly"):
        text = module_text(functions, target, model, functions)
    return _object(text, target)


def _object(text: str, target: Target) -> bytes:
    entry = caching.key("llvm", f"llvmlite {llvmlite.__version__} {llvm.llvm_version_info}", str(target.static), text)
    return Cache("objects", cache_directory()).get_or_make(entry, lambda: emit_object(text, target))


def module_text(
    functions: Sequence[Function],
    target: Target,
    model: str,
    table: Sequence[Function] | None,
    shared: bool = False,
) -> str:
    """The kernels as LLVM assembly, before optimization.

    Args:
        table: the kernels of the exported table, of which a model may have none; None: another module has the table,
            or, for firmware, there is none.
        shared: some kernels are in other modules.
    """
    declarations: set[str] = set()
    intrinsics: dict[str, Intrinsic] = {}
    instructions: Instructions = {}
    metadata = Metadata()
    for f in functions:
        refuse_unwritable(f, "the LLVM generator", arguments=ARGUMENTS)
    listed = table or functions
    names = [f"@sterna_{model}_{f.name}" if shared else f"@kernel{n}_{f.name}" for n, f in enumerate(listed)]
    own = [f"@sterna_{model}_{f.name}" for f in functions] if shared else names
    linkage = "hidden" if shared else "internal"
    bodies = [
        FunctionWriter(f, target, declarations, intrinsics, instructions, metadata).text(n, linkage)
        for f, n in zip(functions, own, strict=True)
    ]
    if table is not None:
        bodies.append(_tables(table, names, target, model))
    declarations |= {f"declare hidden i32 {name}(ptr, i32, i32)" for name in names if name not in own}
    lowerings = [_intrinsic(i, target, declarations) for i in intrinsics.values()]
    lowerings += [
        f"define internal void {name}({parameters}) alwaysinline #0 {{\n{text}\n  ret void\n}}"
        for (_, parameters, text), name in instructions.items()
    ]
    head = f'target datalayout = "{data_layout(target)}"\ntarget triple = "{full_triple(target)}"'
    return "\n\n".join(
        [head, *lowerings, *bodies, "\n".join(sorted(declarations)), _attributes(target), metadata.text()]
    )


def emit_object(text: str, target: Target) -> bytes:
    """Optimizes LLVM assembly and emits an object of the target's format.

    Raises:
        SternaError: E0901, the text is not valid.
    """
    with timed("LLVM's optimizer and code generation"):
        return _emit(text, target)


def _emit(text: str, target: Target) -> bytes:
    machine = target_machine(target)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as problem:
        if any(d.llvm for d in target.intrinsics):
            title = f"LLVM rejects kernels with the intrinsics of the target {target.name}"
            raise error("E0403", title, str(problem), fix="mend what its description says under `llvm`") from None
        raise internal_error("LLVM rejected generated code", str(problem)) from None
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _intrinsic(intrinsic: Intrinsic, target: Target, declarations: set[str]) -> str:
    """The definition of an intrinsic's function, which is always inlined."""
    result, kinds = kind(intrinsic.dtype, intrinsic.elements), operand_kinds(intrinsic)
    if intrinsic.template:
        native, types = target.has(intrinsic), {"result": result, "a": kinds[1], "b": kinds[2]}
        body = render_template("intrinsics/llvm.j2", i=intrinsic, t=types, native=native).strip("\n")
        names = [f"a{n}" for n in range(len(kinds))]
    else:
        names = [t.name for t in intrinsic.inputs]
        names = [intrinsic.behaviour.name, *names] if intrinsic.accumulates else names
        operands = {name: InstructionOperand(f"%{name}") for name in names}
        body = instruction_text(lowering(intrinsic, "llvm", target).text, operands)
    declarations |= declarations_of(body, every=True)
    parameters = ", ".join(f"{k} %{name}" for k, name in zip(kinds, names, strict=True))
    head = f"define internal {result} @{intrinsic.function}({parameters}) alwaysinline #0"
    return f"{head} {{\n{body}\n  ret {result} %r\n}}"


def _tables(functions: Sequence[Function], names: list[str], target: Target, model: str) -> str:
    """The records of sterna_kernel.h, whose layout is LLVM's own of the same members."""
    n = len(functions)
    entries = (
        {
            "function": name,
            "n_tasks": most(f.n_tasks),
            "scratch_bytes": f.scratch_bytes,
            "flags": KERNEL_NEEDS_BARRIER if f.has_barriers else 0,
        }
        for f, name in zip(functions, names, strict=True)
    )
    kernels = ", ".join(f"%kernel {{ {_values(KERNEL, entry)} }}" for entry in entries)
    features = " ".join(target.cpu_features)
    size = LIBRARY.size(target.pointer_bits // 8)
    record = {"size": size, "abi": ABI, "n_kernels": n, "kernels": "@kernels", "features": "@features"}
    return "\n".join(
        [
            f"%kernel = type {{ {', '.join(_types(KERNEL))} }}",
            f"%library = type {{ {', '.join(_types(LIBRARY))} }}",
            f"@kernels = internal constant [{n} x %kernel] [{kernels}]",
            f'@features = internal constant [{len(features) + 1} x i8] c"{features}\\00"',
            f"@library = internal constant %library {{ {_values(LIBRARY, record)} }}",
            f"define ptr @{export_name(model)}() #0 {{\n  ret ptr @library\n}}",
        ]
    )


def _types(record: Record) -> list[str]:
    """LLVM's types of the members of a record that has 32-bit numbers and pointers."""
    return ["ptr" if member.size(4) != member.size(8) else "i32" for member in record.members]


def _values(record: Record, given: Mapping[str, object]) -> str:
    """The members of a constant."""
    values = record.ordered({name: str(value) for name, value in given.items()})
    return ", ".join(f"{kind} {value}" for kind, value in zip(_types(record), values, strict=True))


def _attributes(target: Target) -> str:
    # no-builtins: loops stay loops where LLVM knows a memset or memcpy, which a bundle does not have.
    pairs = {"no-trapping-math": "true", "target-cpu": target.llvm_cpu}
    pairs["target-features"] = ",".join(target.llvm_features)
    widest = max(target.vector_bits, *widths(target), 0)
    if widest >= 512:
        # LLVM tunes recent processors to narrower vectors than they have; a tuned kernel may have wider ones than the
        # target's rules.
        pairs["prefer-vector-width"] = pairs["min-legal-vector-width"] = str(widest)
    texts = [f'"{name}"="{value}"' for name, value in pairs.items() if value]
    size = {"fast": "", "small": "optsize ", "smallest": "optsize minsize "}[target.code]
    return f'attributes #0 = {{ nounwind {size}"no-builtins" {" ".join(texts)} }}'
