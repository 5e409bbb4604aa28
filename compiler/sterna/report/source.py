"""The C of every kernel, taken out of `kernels.c`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: The first line of a kernel as `templates/c/kernels.c.j2` writes it; its end is the first `}` that stands alone.
_BEGIN = re.compile(
    r"^(?:static )?int32_t (?:sterna_\w+?_)?(k\d+_\w+)\(const sterna_call \*call, [^)]*\) \{$", re.MULTILINE
)
_END = "\n}\n"


def kernels_in(text: str, names: Iterable[str]) -> dict[str, str]:
    """The functions of these kernels by name, each with the comment above it."""
    wanted, found = set(names), dict[str, str]()
    for begin in _BEGIN.finditer(text):
        end = text.find(_END, begin.end())
        if begin[1] in wanted and end >= 0:
            found[begin[1]] = text[begin.start() : end + len(_END) - 1]
    return found


def kernels_of(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """Of a bundle; nothing where its source has been deleted, which no runtime needs."""
    try:
        text = (directory / "kernels.c").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return kernels_in(text, names)
