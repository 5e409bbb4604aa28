"""Writes what compiler/sterna_runtime/abi says into the sources of the runtimes: the definitions of its names in the
C headers, where they stand, and runtime_js/src/abi.js.

python ci/abi.py            # rewrites them
python ci/abi.py --check    # fails if they are not up to date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from sterna_runtime import abi
from sterna_runtime.abi.records import CALL, KERNEL, KERNEL_RECORDS, LIBRARY, RUNTIME_RECORDS, Record

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 120


# ---------------------------------------------------------------- C
def structure(record: Record) -> str:
    """The definition of a structure."""
    lines = [f"  {member.declaration};" for member in record.members]
    commented = (len(line) for line, member in zip(lines, record.members, strict=True) if member.comment)
    column = record.column or max(commented, default=0) + 1
    made = []
    for line, member in zip(lines, record.members, strict=True):
        if member.above:
            made.append("  /* " + member.above.replace("\n", "\n   * ") + " */")
        made.append(f"{line.ljust(column)}/* {member.comment} */" if member.comment else line)
    return "\n".join([f"typedef struct {record.name} {{", *made, f"}} {record.name};"])


def table(name: str, rows: Iterable[str], per_line: Callable[[int], bool] = lambda n: True) -> str:
    """The definition of an X-macro; `per_line` says before which of its rows a line begins."""
    lines: list[str] = []
    for n, row in enumerate(rows):
        if per_line(n):
            lines.append(f"  {row}")
        else:
            lines[-1] += f" {row}"
    head = f"#define {name}(X)"
    width = max(len(line) for line in (head, *lines[:-1])) + 1
    return "\n".join([*(line.ljust(width) + "\\" for line in (head, *lines[:-1])), lines[-1]])


def number(name: str, value: int, comment: str = "", unsigned: bool = True) -> str:
    """The definition of a number."""
    return f"#define {name} {value}{'u' if unsigned else ''}" + (f" /* {comment} */" if comment else "")


def statuses() -> str:
    return table("STERNA_STATUSES", (f'X({n}, {v}, "{code}", "{text}")' for n, v, code, text in abi.STATUSES))


def dtypes() -> str:
    firsts = {"float32", "int8", "uint8", "float8_e4m3fn", "float8_e8m0fnu"}
    names = [name for name, _, _ in abi.DTYPES]
    rows = (f"X({', '.join(map(str, row))})" for row in abi.DTYPES)
    return table("STERNA_DTYPES", rows, lambda n: names[n] in firsts)


#: File -> what it defines.
C = {
    "runtime_c/include/sterna_kernel.h": (
        number("STERNA_ABI", abi.ABI),
        number("STERNA_KERNEL_NEEDS_BARRIER", abi.KERNEL_NEEDS_BARRIER),
        *map(structure, KERNEL_RECORDS),
    ),
    "runtime_c/include/sterna.h": (
        number("STERNA_OLDEST_FORMAT", abi.OLDEST_FORMAT),
        number("STERNA_FORMAT", abi.FORMAT),
        number("STERNA_FORMAT_WITH_DEVICES", abi.FORMAT_WITH_DEVICES),
        number("STERNA_ALIGNMENT", abi.ALIGNMENT),
        number("STERNA_MAX_RANK", abi.MAX_RANK, unsigned=False),
        statuses(),
        dtypes(),
        *map(structure, RUNTIME_RECORDS),
    ),
    "runtime_c/src/internal.h": (
        number("MAX_THREADS", abi.MAX_THREADS),
        number("MAX_GRAPH_BYTES", abi.MAX_GRAPH_BYTES, "of graph.json"),
        number("MAX_NESTED", abi.MAX_NESTED, "expressions, as the JSON around them; control flow: depths of recursion"),
        number("MAX_SYMBOLS", abi.MAX_SYMBOLS, "open dimensions of a model"),
        number("MAX_TERMS", abi.MAX_TERMS, "of an expression"),
        number("LABELLED_OUTPUTS", abi.LABELLED_OUTPUTS),
    ),
    "runtime_c/src/json.h": (number("JSON_MAX_DEPTH", abi.MAX_NESTED, unsigned=False),),
}


def placed(text: str, definition: str) -> str:
    """The text of a file with a definition in the place of that of the same name."""
    if definition.startswith("typedef"):
        name = definition.split()[2]
        pattern = rf"typedef struct {name} \{{\n.*?\n\}} {name};"
    else:
        name = re.split(r"[ (]", definition)[1]
        pattern = rf"#define {name}\b(?:[^\n]*\\\n)*[^\n]*"
    result, count = re.subn(pattern, lambda _: definition, text, count=0, flags=re.S if "typedef" in pattern else 0)
    if count != 1:
        raise SystemExit(f"{name} is defined {count} times")
    return result


# ---------------------------------------------------------------- JavaScript
JS = """// Written by ci/abi.py from sterna_runtime/abi. It imports nothing: bundlers then write the numbers in place.

/** Of graph.json, see docs/bundle.md: versions, bytes, and how much of what there may be. */
export const OLDEST_FORMAT = {oldest}, FORMAT = {format}, MOST_BYTES = {bytes}, MOST_NESTED = {nested};
export const MOST_SYMBOLS = {symbols}, MOST_DIMS = {rank}, MOST_TERMS = {terms};

/** Of every buffer: bytes. */
export const ALIGNMENT = {alignment};

/** Of the kernel ABI: its version, and sizes of its records with pointers of 32 bits. */
export const ABI = {abi}, CALL_WORDS = {call}, KERNEL_WORDS = {kernel}, LIBRARY_BYTES = {library};
"""


def javascript() -> str:
    """The module of the JavaScript runtime."""
    return JS.format(
        oldest=abi.OLDEST_FORMAT, format=abi.FORMAT, bytes=abi.MAX_GRAPH_BYTES_IN_JAVASCRIPT, nested=abi.MAX_NESTED,
        symbols=abi.MAX_SYMBOLS, rank=abi.MAX_RANK, terms=abi.MAX_TERMS, alignment=abi.ALIGNMENT, abi=abi.ABI,
        call=CALL.size(4) // 4, kernel=KERNEL.size(4) // 4, library=LIBRARY.size(4),
    )  # fmt: skip


def files() -> dict[Path, str]:
    """Every file that has something of it, as it should be."""
    made = {ROOT / "runtime_js" / "src" / "abi.js": javascript()}
    for name, definitions in C.items():
        text = (ROOT / name).read_text("utf-8")
        for definition in definitions:
            text = placed(text, definition)
        made[ROOT / name] = text
    return made


def main() -> int:
    stale = [path for path, text in files().items() if not path.is_file() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not up to date: run python ci/abi.py", file=sys.stderr)
        return int(bool(stale))
    for path, text in {path: text for path, text in files().items() if path in stale}.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
