"""The memories that a target's description declares, as tables `[[memories]]`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sterna.errors import Diagnostic, SternaError
from sterna.ir.memory import ACCESSES, BUILT_IN, REACHES, Memory
from sterna.targets.tables import Contradiction, entries_of, line_of

TABLE = "memories"
#: Names become parts of names in C.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_KEYS = tuple(f for f in fields(Memory) if f.name != "kind")
_MOST_BYTES, _MOST_ALIGNMENT, _MOST_SPACE = 1 << 40, 1 << 16, (1 << 24) - 1


def read_memories(value: Any, path: Path) -> tuple[tuple[Memory, ...], list[Diagnostic]]:
    """The memories that a description lists, and everything that is wrong with them (E0202)."""
    choices = {"reach": REACHES, "access": ACCESSES}
    entries, problems = entries_of(path, TABLE, value, _KEYS, choices)
    if problems:
        return (), problems
    memories = tuple(Memory(**entry) for entry in entries)
    for n, memory in enumerate(memories):
        for c in _nonsense(memory, memories[:n]):
            where = (line_of(path, c.key, TABLE, n),)
            problems.append(Diagnostic("E0202", f'memory "{memory.name}": {c.problem}', where, c.fix))
    return memories, problems


def pools(sizes: Mapping[str, int], alignment: int) -> tuple[Memory, ...]:
    """The memories of a board that a user names, bytes by name, the fastest first.

    Raises:
        SternaError: E0203, what is wrong with all of them.
    """
    made: list[Memory] = []
    problems = []
    for n, (name, size) in enumerate(sizes.items()):
        speed = float(len(sizes) - n)
        memory = Memory(name, "device", bytes=size, alignment=alignment, bytes_per_cycle=speed)
        for c in _nonsense(memory, tuple(made)):
            problems.append(Diagnostic("E0203", f'pool "{name}": {c.problem}', (), c.fix))
        made.append(memory)
    if problems:
        raise SternaError(problems)
    return tuple(made)


def _nonsense(memory: Memory, earlier: tuple[Memory, ...]) -> Iterator[Contradiction]:
    """What no memory is."""
    if not _NAME.fullmatch(memory.name):
        fix = "a lower-case letter, then at most 31 of a to z, 0 to 9 and _"
        yield Contradiction("name", "it cannot be called that", fix)
    elif memory.name in BUILT_IN:
        problem = f"{memory.name} is a scope that every target has"
        yield Contradiction("name", problem, f"a name other than {', '.join(BUILT_IN)}")
    elif any(memory.name == other.name for other in earlier):
        yield Contradiction("name", "there are two of that name", "give each memory a name of its own")
    if not 1 <= memory.bytes <= _MOST_BYTES:
        yield Contradiction("bytes", f"bytes is {memory.bytes}", f"a number from 1 to {_MOST_BYTES}")
    alignment = memory.alignment
    if not 1 <= alignment <= _MOST_ALIGNMENT or alignment & (alignment - 1):
        problem = f"alignment is {alignment}"
        yield Contradiction("alignment", problem, f"a power of two from 1 to {_MOST_ALIGNMENT}")
    for key in ("asked_bytes", "together_bytes", "system_bytes"):
        if not 0 <= (size := getattr(memory, key)) <= _MOST_BYTES:
            yield Contradiction(key, f"{key} is {size}", f"a number from 0 to {_MOST_BYTES}")
    if memory.together_bytes and memory.together_bytes < memory.most + memory.system_bytes:
        problem = f"together_bytes is {memory.together_bytes}, and one task may have {memory.most}"
        yield Contradiction("together_bytes", problem, "what a multiprocessor has for all tasks, or leave it out")
    if not 0 <= memory.address_space <= _MOST_SPACE:
        problem = f"address_space is {memory.address_space}"
        yield Contradiction("address_space", problem, f"LLVM's number for it, from 0 to {_MOST_SPACE}")
    if not (math.isfinite(memory.bytes_per_cycle) and memory.bytes_per_cycle > 0):
        problem = f"bytes_per_cycle is {memory.bytes_per_cycle}"
        yield Contradiction("bytes_per_cycle", problem, "a number greater than 0")
