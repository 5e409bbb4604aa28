"""The intrinsics that a target's description declares, as tables `[[intrinsics]]`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Any

from sterna.errors import Diagnostic
from sterna.intrinsics import ANY_MEMORY, INTRINSICS, Form, Intrinsic, Lowering, Place
from sterna.intrinsics.text import MOST_POSITIONS, BehaviourError, parse_behaviour
from sterna.ir import dtypes
from sterna.targets.tables import Contradiction, entries_of, keys_fix, line_of
from sterna_runtime.names import is_c_name

TABLE = "intrinsics"
#: Where an operand is a value, or a vector, and not memory.
REGISTER = "register"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*")
_HEADER = re.compile(r"[\w.+-]+(/[\w.+-]+)*")
_TYPES = (*dtypes.SIGNED, *dtypes.UNSIGNED, "float32", "float64")
_MOST_NAME, _MOST_STRIDE = 64, 1 << 30


@dataclass(frozen=True)
class OperandDeclaration:
    """An operand, or the result. `strides`: elements from one position to the next along each dimension, None for any
    number; () for any numbers."""

    name: str
    dtype: str
    memory: str = REGISTER
    strides: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class IntrinsicDeclaration:
    """What a description says of an intrinsic.

    Args:
        name: by which schedules know it.
        behaviour: the formula, as `intrinsics.text` reads it.
        axes: the positions of every axis of the formula.
        operands: those of the formula, and its result.
        c, llvm: how generators write it (`Lowering.text`); c_header: what C includes for it.
        cycles: from one to the next; latency: from one to the next one into the same result.
        needs: features of the target that it takes, beside those that every processor of the architecture has.
    """

    name: str
    behaviour: str
    axes: tuple[tuple[str, int], ...]
    operands: tuple[OperandDeclaration, ...]
    c: str = ""
    c_header: str = ""
    llvm: str = ""
    cycles: float = 1.0
    latency: float = 0.0
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """The keys of an entry, and what a file gives for them."""

    name: str
    behaviour: str
    axes: dict[str, Any]
    operands: dict[str, Any]
    c: str = ""
    c_header: str = ""
    llvm: str = ""
    cycles: float = 1.0
    latency: float = 0.0
    needs: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def declared_intrinsic(d: IntrinsicDeclaration) -> Intrinsic:
    """The intrinsic of a declaration; of equal ones the same.

    Raises:
        BehaviourError: the formula is none.
    """
    found = parse_behaviour(d.behaviour, dict(d.axes), {o.name: o.dtype for o in d.operands})
    ranks = {load.tensor.name: len(load.indices) for load in found.stage.reads()}
    ranks[found.stage.name] = len(found.stage.axes)
    places = {o.name: Place(o.memory, o.strides or (None,) * ranks[o.name]) for o in d.operands if o.memory != REGISTER}
    lowerings = {"c": Lowering(d.c, d.c_header), "llvm": Lowering(d.llvm)}
    return Intrinsic(
        d.name,
        found.stage,
        found.accumulates,
        lowerings={language: each for language, each in lowerings.items() if each.text},
        needs=(d.needs,),
        places=places,
        cycles=d.cycles,
        latency=d.latency,
    )


def read_intrinsics(
    value: Any, path: Path, memories: Sequence[str]
) -> tuple[tuple[IntrinsicDeclaration, ...], list[Diagnostic]]:
    """The intrinsics that a description lists, and everything that is wrong with them (E0202).

    Args:
        memories: the names of the target's.
    """
    entries, problems = entries_of(path, TABLE, value, fields(_Entry), {})
    if problems:
        return (), problems
    declarations: list[IntrinsicDeclaration] = []
    for n, entry in enumerate(entries):
        found = list(_shape_of(entry))
        if not found:
            declaration = _declaration(entry)
            found = list(_nonsense(declaration, declarations, memories))
            declarations.append(declaration)
        name = entry["name"]
        problems += (
            Diagnostic("E0202", f'intrinsic "{name}": {c.problem}', (line_of(path, c.key, TABLE, n),), c.fix)
            for c in found
        )
    return tuple(declarations), problems


_OPERAND_KEYS = ("dtype", "memory", "strides")


def _shape_of(entry: Mapping[str, Any]) -> Iterator[Contradiction]:
    """What is wrong with tables and lists inside of an entry."""
    for axis, extent in entry["axes"].items():
        if type(extent) is not int or not 1 <= extent <= MOST_POSITIONS:
            fix = f"a number from 1 to {MOST_POSITIONS}"
            yield Contradiction("axes", f"the axis {axis} has {extent!r} positions", fix)
    for name, operand in entry["operands"].items():
        if not isinstance(operand, dict):
            yield Contradiction("operands", f"{name} is no table", 'write a = { dtype = "int8", memory = "..." }')
            continue
        for key in operand:
            if key not in _OPERAND_KEYS:
                yield Contradiction("operands", f"{name} has an unknown key {key}", keys_fix(key, _OPERAND_KEYS))
        if operand.get("dtype") not in _TYPES:
            problem = f"the element type of {name} is {operand.get('dtype')!r}"
            yield Contradiction("operands", problem, f"one of {', '.join(_TYPES)}")
        if not isinstance(operand.get("memory", REGISTER), str):
            yield Contradiction("operands", f"the memory of {name} is no name", "the name of a memory, in quotes")
        strides = operand.get("strides", [])
        if not isinstance(strides, list) or not all(_is_stride(s) for s in strides):
            fix = 'a list of numbers of elements, or "any" where any number will do'
            yield Contradiction("operands", f"the strides of {name} are {strides!r}", fix)


def _is_stride(value: Any) -> bool:
    return value == "any" or (type(value) is int and abs(value) <= _MOST_STRIDE)


def _declaration(entry: Mapping[str, Any]) -> IntrinsicDeclaration:
    operands = tuple(
        OperandDeclaration(
            name,
            o["dtype"],
            o.get("memory", REGISTER),
            tuple(None if s == "any" else s for s in o.get("strides", ())),
        )
        for name, o in entry["operands"].items()
    )
    simple = {key: value for key, value in entry.items() if key not in ("axes", "operands", "needs")}
    needs = tuple(entry.get("needs", ()))
    return IntrinsicDeclaration(**simple, axes=tuple(entry["axes"].items()), operands=operands, needs=needs)


def _nonsense(
    d: IntrinsicDeclaration, earlier: list[IntrinsicDeclaration], memories: Sequence[str]
) -> Iterator[Contradiction]:
    """What no intrinsic is."""
    if not _NAME.fullmatch(d.name) or len(d.name) > _MOST_NAME:
        fix = f"letters and digits, with single . _ or - between them, at most {_MOST_NAME}"
        yield Contradiction("name", "it cannot be called that", fix)
    elif d.name in INTRINSICS:
        yield Contradiction("name", "Sterna has one of that name", "another name")
    elif any(_function(d.name) == _function(other.name) for other in earlier):
        yield Contradiction("name", "there are two of that name", "give each intrinsic a name of its own")
    for key, names in (("axes", [a for a, _ in d.axes]), ("operands", [o.name for o in d.operands])):
        for name in names:
            if not is_c_name(name):
                yield Contradiction(key, f"{name} is no name in C", "letters, digits and _, no word of C")
            elif re.search(r"_stride\d+$", name):
                yield Contradiction(key, f"{name} is what a stride is called", "a name that does not end so")
    if math.prod(extent for _, extent in d.axes) > MOST_POSITIONS:
        yield Contradiction("axes", f"its axes have more than {MOST_POSITIONS} positions together", "smaller extents")
    yield from lost_memories(d, memories)
    for key, number in (("cycles", d.cycles), ("latency", d.latency)):
        if not (math.isfinite(number) and number >= 0):
            yield Contradiction(key, f"{key} is {number}", "a number that is not negative")
    if d.c_header and not _HEADER.fullmatch(d.c_header):
        yield Contradiction("c_header", f"c_header is {d.c_header!r}", "the path of a header, without brackets")
    if not d.c and not d.llvm:
        yield Contradiction("c", "it does not say how a generator writes it", "state c, llvm, or both")
    try:
        intrinsic = declared_intrinsic(d)
    except BehaviourError as problem:
        fix = "see `[[intrinsics]]` in docs/targets.md for what a behaviour can be"
        yield Contradiction("behaviour", f"its behaviour cannot be read: {problem}", fix)
        return
    yield from _places(d, intrinsic)
    for key, text in (("c", d.c), ("llvm", d.llvm)):
        if text:
            yield from _fields(key, text, intrinsic)


def lost_memories(d: IntrinsicDeclaration, memories: Sequence[str]) -> Iterator[Contradiction]:
    """Memories that a declaration names and the target does not have."""
    known = (REGISTER, ANY_MEMORY, *memories)
    for o in d.operands:
        if o.memory not in known:
            problem = f"the target has no memory {o.memory}, where {o.name} lies"
            yield Contradiction("operands", problem, f"one of {', '.join(known)}")


def _places(d: IntrinsicDeclaration, intrinsic: Intrinsic) -> Iterator[Contradiction]:
    """What does not go together in where the operands are."""
    ranks = {t.name: len(t.shape) for t in (intrinsic.behaviour, *intrinsic.inputs)}
    result = intrinsic.behaviour.name
    for o in d.operands:
        if o.strides and len(o.strides) != ranks[o.name]:
            problem = f"{o.name} has {ranks[o.name]} dimensions and {len(o.strides)} strides"
            yield Contradiction("operands", problem, "one stride for each dimension")
        if o.strides and o.memory == REGISTER:
            yield Contradiction("operands", f"{o.name} has strides and is in registers", "leave strides out")
    if intrinsic.form is Form.MEMORY:
        if result not in intrinsic.places:
            fix = "state the memory of the result, or keep every operand in registers"
            yield Contradiction("operands", f"the result {result} is in registers and operands are in memory", fix)
        for tensor in intrinsic.inputs:
            if tensor.name not in intrinsic.places and tensor.shape:
                fix = "state its memory; only an operand of one element is a value"
                yield Contradiction("operands", f"{tensor.name} has several elements and no memory", fix)
        return
    axes, reduced = intrinsic.behaviour.axes, [a for a in intrinsic.axes if a.reduction]
    if len(axes) != 1 or len(reduced) > 1 or intrinsic.lanes & (intrinsic.lanes - 1) or intrinsic.lanes < 2:
        fix = "one axis of lanes, a power of two, and at most one that is reduced; or operands in memory"
        yield Contradiction("axes", "these are not the axes of an intrinsic over vectors", fix)
        return
    wanted = [a.var for a in intrinsic.axes]
    for load in intrinsic.behaviour.reads():
        if list(load.indices) != wanted:
            fix = f"{load.tensor.name}[{', '.join(a.name for a in intrinsic.axes)}]"
            yield Contradiction("behaviour", f"{load.tensor.name} is no vector of all lanes and groups", fix)


def _fields(key: str, text: str, intrinsic: Intrinsic) -> Iterator[Contradiction]:
    """What a lowering names that there is not, and strides of any number that it does not take."""
    known = {intrinsic.behaviour.name, *(t.name for t in intrinsic.inputs)}
    if intrinsic.form is Form.VECTORS and not intrinsic.accumulates:
        known -= {intrinsic.behaviour.name}
    free = set()
    for name, place in intrinsic.places.items():
        known |= {f"{name}_stride{d}" for d in range(len(place.strides))}
        free |= {f"{name}_stride{d}" for d, stride in enumerate(place.strides) if stride is None}
    used = set()
    for found in Template.pattern.finditer(text):
        name = found["named"] or found["braced"]
        if found["invalid"] is not None:
            yield Contradiction(key, f"{key} has a $ that names nothing", "write $$ for a dollar sign")
        elif name and name not in known:
            yield Contradiction(key, f"{key} names ${name}", f"one of {', '.join(f'${n}' for n in sorted(known))}")
        elif name:
            used.add(name)
    for name in sorted(known - used):
        if "_stride" not in name:
            yield Contradiction(key, f"{key} does not use ${name}", f"give ${name} to the instruction")
        elif name in free:
            operand, _, dimension = name.rpartition("_stride")
            fix = f"use ${name}, or state the step of dimension {dimension} that the instruction takes"
            yield Contradiction(key, f"{operand} may have any strides, and {key} does not use ${name}", fix)


def _function(name: str) -> str:
    return re.sub(r"[.-]", "_", name)
