"""Reading descriptions of targets: where a key stands, and arrays of tables such as `[[memories]]` as records."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from pathlib import Path
from typing import Any

from sterna.errors import Diagnostic

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "dict[str, Any]": (dict,),
}  # fmt: skip
#: Of a list, the type of its entries.
_ENTRIES = {"tuple[str, ...]": "str", "tuple[int, ...]": "int"}
#: Values of a field, by its type, in the words of a description.
_WORDS = {
    "int": "an integer", "float": "a number", "str": "a text in quotes", "bool": "true or false",
    "dict[str, Any]": "a table", "tuple[str, ...]": "a list of texts", "tuple[int, ...]": "a list of integers",
}  # fmt: skip


def wanted(annotation: str) -> str:
    """What a field of that type holds, for an error's fix."""
    return f"it is {_WORDS.get(annotation, annotation)}"


@dataclass(frozen=True)
class Contradiction:
    """A key of a description that does not go with the others: what is wrong with it, and what mends it."""

    key: str
    problem: str
    fix: str


def line_of(path: Path, key: str, table: str = "", number: int = 0) -> str:
    """Where a description says something: the file, and the line of the key if it has one.

    Args:
        table, number: the key stands in that entry of an array of tables, the first is 0.
    """
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    wanted = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    header = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")
    current, count = "", -1
    for n, line in enumerate(lines, 1):
        if found := header.match(line):
            current = found[1]
            count += current == table
        elif current == table and (not table or count == number) and wanted.match(line):
            return f"{path}, line {n}"
    return f'{path}, {table} number {number + 1}, key "{key}"' if table else str(path)


def keys_fix(key: str, known: Iterable[str]) -> str:
    """What to write for a key that there is not."""
    known = list(known)
    close = difflib.get_close_matches(key, known, 1)
    return f"did you mean {close[0]}?" if close else f"keys: {', '.join(known)}"


def entries_of(
    path: Path,
    table: str,
    value: Any,
    fields: Sequence[Field[Any]],
    choices: Mapping[str, Sequence[str]],
    single: bool = False,
) -> tuple[list[dict[str, Any]], list[Diagnostic]]:
    """The entries of an array of tables as arguments of a record, and everything that is wrong with them (E0202).

    Args:
        value: what the file says after the table's name.
        fields: of the record, those that a description may state.
        choices: the words that a field takes, where those are few.
        single: it is one table `[table]`, in a list.
    """
    named = f"[{table}]" if single else f"[[{table}]]"
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        fix = f"write every entry under a line [[{table}]]"
        return [], [Diagnostic("E0202", f"key {table} is no array of tables", (line_of(path, table),), fix)]
    known = {f.name: f for f in fields}
    problems = []
    for n, entry in enumerate(value):
        for key, given in entry.items():
            where = (line_of(path, key, table, n),)
            if key not in known:
                problems.append(Diagnostic("E0202", f"unknown key {key} in {named}", where, keys_fix(key, known)))
            elif key in choices:
                if given not in choices[key]:
                    fix = f"one of {', '.join(choices[key])}"
                    problems.append(Diagnostic("E0202", f'key {key} in {named} is "{given}"', where, fix))
            elif not _is(given, str(known[key].type)):
                title = f"key {key} in {named} has a value of type {type(given).__name__}"
                problems.append(Diagnostic("E0202", title, where, wanted(str(known[key].type))))
        missing = [f.name for f in fields if f.default is MISSING and f.name not in entry]
        if missing:
            what = named if single else f"number {n + 1} of {named}"
            title = f"{what} lacks {', '.join(missing)}"
            problems.append(Diagnostic("E0202", title, (str(path),), "add the keys"))
    return value, problems


def record_of(
    path: Path, table: str, value: Any, fields: Sequence[Field[Any]]
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """One table such as `[threads]` as arguments of a record, and everything that is wrong with it (E0202)."""
    if not isinstance(value, dict):
        fix = f"write its keys under a line [{table}]"
        return {}, [Diagnostic("E0202", f"key {table} is no table", (line_of(path, table),), fix)]
    ((entry,), problems) = entries_of(path, table, [value], fields, {}, single=True)
    return {key: tuple(given) if isinstance(given, list) else given for key, given in entry.items()}, problems


def _is(value: Any, annotation: str) -> bool:
    if (entry := _ENTRIES.get(annotation)) is not None:
        return isinstance(value, list) and all(_is(each, entry) for each in value)
    return isinstance(value, _TYPES[annotation]) and (annotation == "bool" or not isinstance(value, bool))
