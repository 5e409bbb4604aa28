"""Escaping of text that others chose (names in models and bundles), one function for each language that it goes into.

A name may hold anything: control characters of a terminal, the end of a comment, markup, direction overrides. Whoever
prints or generates one passes it through the function of that language; nothing else escapes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sterna_runtime.escape import json_text, terminal, terminal_lines

__all__ = ["comment", "java_comment", "javascript", "json_text", "rich", "terminal", "terminal_lines"]

_RICH_TAG = re.compile(r"(\\*)(\[[a-z#/@][^[]*?\])")


def rich(text: str) -> str:
    """For the markup of rich, on a terminal: nothing in it is a tag, whatever stands after it."""
    escaped = _RICH_TAG.sub(r"\1\1\\\2", terminal(text))
    backslashes = escaped[len(escaped.rstrip("\\")) :]
    return f"{escaped}{backslashes}[none][/none]" if backslashes else escaped  # before a tag, two stand for one


def javascript(data: Any) -> str:
    """A literal of JavaScript and TypeScript, for anything that JSON can say; in ASCII, and no HTML in it."""
    return re.sub("[<>&\x7f]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(data))


def comment(text: str) -> str:
    """For a block comment of C, JavaScript or TypeScript: in ASCII, neither its end nor the start of another."""
    text = re.sub(r"[^\x20-\x7e]", "?", text)
    text = re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)", " ", text)  # also trigraphs: ??/ is a backslash
    return f"{text} " if text.endswith(("/", "*", "\\", "?")) else text


def java_comment(text: str) -> str:
    """For a comment of Java, where `\\u` begins a character even there."""
    return re.sub("[<>&@{}]", "?", comment(text.replace("\\", "?")))
