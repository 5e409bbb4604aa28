"""Escaping of text that others chose (names in bundles and models) for terminals and JSON.

A name may hold anything: control characters, direction overrides. Whoever prints one passes it through one of these
functions. The compiler has those of the languages that it writes.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: Characters that a reader does not see, or that act: controls, format characters (among them those that turn the
#: direction of text round), separators of lines, halves of surrogate pairs.
_UNSEEN = (
    "\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_IN_A_LINE = re.compile(f"[{_UNSEEN}]")
_IN_LINES = re.compile(f"(?![\n\t])[{_UNSEEN}]")
_BEYOND_ASCII = re.compile(f"(?![\x00-\x1f])[{_UNSEEN}]")


def terminal(text: str) -> str:
    """For a terminal, within a line: what is not seen, or acts, is spelled as in Python (`\\x1b`, `\\u202e`)."""
    return _IN_A_LINE.sub(_spelled, text)


def terminal_lines(text: str) -> str:
    """As `terminal`, of text that consists of lines; they stay lines."""
    return _IN_LINES.sub(_spelled, text)


def json_text(data: Any, indent: int | None = None) -> str:
    """JSON that a terminal may show: what is not seen is spelled, other letters are themselves."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _BEYOND_ASCII.sub(_json_unit, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] in _SHORT:
        return _SHORT[found[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_unit(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f"
