"""Reads Java's class files: what they define, and what of other classes they use (JVM specification, chapter 4)."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Bytes of a constant after its tag, by the tag.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_UTF8, _LONG, _DOUBLE, _CLASS, _NAMED, _DYNAMIC = 1, 5, 6, 7, 12, 18


@dataclass(frozen=True)
class ClassFile:
    """A class: its Java version, its parents, its members as `name:descriptor`, what it uses as `class.member`."""

    major: int
    name: str
    parents: tuple[str, ...]
    members: frozenset[str]
    uses: frozenset[str]
    dynamic: bool


def read(data: bytes) -> ClassFile:
    file = io.BytesIO(data)

    def number(form: str) -> int:
        return int(struct.unpack(">" + form, file.read(struct.calcsize(form)))[0])

    assert number("I") == 0xCAFEBABE
    number("H")
    major, count = number("H"), number("H")
    texts: dict[int, str] = {}
    rows: dict[int, tuple[int, bytes]] = {}
    at = 1
    while at < count:
        tag = number("B")
        if tag == _UTF8:
            texts[at] = file.read(number("H")).decode("latin-1")  # Java's own UTF-8; bytes tell texts apart
        else:
            rows[at] = tag, file.read(_SIZES[tag])
        at += 2 if tag in (_LONG, _DOUBLE) else 1

    def text_of(index: int) -> str:
        return texts[struct.unpack(">H", rows[index][1])[0]]

    def named(index: int) -> str:
        name, kind = struct.unpack(">HH", rows[index][1])
        return f"{texts[name]}:{texts[kind]}"

    number("H")
    name, above, interfaces = number("H"), number("H"), number("H")
    parents = [above, *(number("H") for _ in range(interfaces))]
    members = []
    for _ in ("fields", "methods"):
        for _ in range(number("H")):
            number("H")
            members.append(f"{texts[number('H')]}:{texts[number('H')]}")
            for _ in range(number("H")):
                number("H")
                file.read(number("I"))
    refs = [struct.unpack(">HH", row) for tag, row in rows.values() if tag in (9, 10, 11)]
    return ClassFile(
        major,
        text_of(name),
        tuple(text_of(parent) for parent in parents if parent),
        frozenset(members),
        frozenset(f"{text_of(owner)}.{named(what)}" for owner, what in refs),
        any(tag == _DYNAMIC for tag, _ in rows.values()),
    )


def archive(place: Path) -> dict[str, ClassFile]:
    """The classes in an archive, by name."""
    with zipfile.ZipFile(place) as files:
        names = [name for name in files.namelist() if name.endswith(".class") and name != "module-info.class"]
        return {name.removesuffix(".class"): read(files.read(name)) for name in names}


def missing(of: Mapping[str, ClassFile], platform: Mapping[str, ClassFile]) -> Iterator[str]:
    """What classes use of a platform's and the platform does not have."""
    for use in sorted({use for each in of.values() for use in each.uses}):
        owner, _, member = use.partition(".")
        if owner not in of and not owner.startswith("[") and not _has(owner, member, platform):
            yield use


def _has(owner: str, member: str, platform: Mapping[str, ClassFile]) -> bool:
    found = platform.get(owner)
    return found is not None and (
        member in found.members or any(_has(parent, member, platform) for parent in found.parents)
    )
