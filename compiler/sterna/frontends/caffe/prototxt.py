"""The text form of Protocol Buffers, as people write Caffe's networks: names with values or messages in braces.

No schema is needed: what a field is, whoever asks for it knows. A field may occur several times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sterna.errors import error

MOST_BYTES = 64 << 20
DEEPEST = 32
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[A-Za-z_][\w.\-/]*)"""
    r"""|(?P<number>[-+]?(?:0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?(?![\w.])|inf|nan))"""
    r"""|(?P<mark>[{}<>\[\]:,;])|(?P<other>.)""",
    re.DOTALL,
)


class Message:
    """Fields by name, each with its values in order."""

    def __init__(self) -> None:
        self.fields: dict[str, list[Any]] = {}

    def all(self, name: str) -> list[Any]:
        return self.fields.get(name, [])

    def messages(self, name: str) -> list[Message]:
        return [each for each in self.all(name) if isinstance(each, Message)]

    def message(self, name: str) -> Message:
        """The last message of a name; an empty one where there is none."""
        return (self.messages(name) or [Message()])[-1]

    def text(self, name: str, default: str = "") -> str:
        values = [each for each in self.all(name) if isinstance(each, str)]
        return values[-1] if values else default

    def texts(self, name: str) -> list[str]:
        return [each for each in self.all(name) if isinstance(each, str)]

    def number(self, name: str, default: float = 0.0) -> float:
        """A number.

        Raises:
            SternaError: E0109, it is none.
        """
        if name not in self.fields:
            return default
        return self._number(name, self.fields[name][-1])

    def integer(self, name: str, default: int = 0) -> int:
        return int(self.number(name, default))

    def integers(self, name: str) -> list[int]:
        return [int(self._number(name, each)) for each in self.all(name)]

    def numbers(self, name: str) -> list[float]:
        return [self._number(name, each) for each in self.all(name)]

    @staticmethod
    def _number(name: str, value: Any) -> float:
        if not isinstance(value, float) or not abs(value) < 1e12:
            raise error("E0109", f"{name} is {value if isinstance(value, (str, float)) else 'a message'}, not a number")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        if name not in self.fields:
            return default
        value = self.fields[name][-1]
        return value == 1.0 if isinstance(value, float) else str(value).lower() in ("true", "t")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    for found in _TOKEN.finditer(text):
        if found.lastgroup is not None:
            yield found.lastgroup, found[0], found.start()


def parse(content: bytes) -> Message:
    """A text as a message.

    Raises:
        SternaError: E0103, it is not of this form.
    """
    if len(content) > MOST_BYTES:
        raise error("E0103", f"the description has {len(content)} bytes, more than {MOST_BYTES}")
    text = content.decode("utf-8", "replace")
    tokens = [*_tokens(text), ("end", "", len(text))]
    at = 0

    def wrong(position: int) -> Exception:
        line = text.count("\n", 0, tokens[position][2]) + 1
        return error(
            "E0103", f"line {line} is not as a prototxt is written", f'at "{tokens[position][1] or "the end"}"',
            fix="mend the line; every { needs its }",
        )  # fmt: skip

    def value() -> Any:
        nonlocal at
        kind, word, _ = tokens[at]
        at += 1
        if kind == "text":
            parts = [word]
            while tokens[at][0] == "text":
                parts.append(tokens[at][1])
                at += 1
            return "".join(part[1:-1].replace('\\"', '"').replace("\\\\", "\\") for part in parts)
        if kind == "word":
            return word
        if kind == "number":
            try:
                return float(int(word, 16)) if word.lower().lstrip("+-").startswith("0x") else float(word.rstrip("fF"))
            except (ValueError, OverflowError):
                raise wrong(at - 1) from None
        raise wrong(at - 1)

    def message(end: str, depth: int) -> Message:
        nonlocal at
        if depth > DEEPEST:
            raise error("E0103", f"messages are nested more than {DEEPEST} deep")
        found = Message()
        while True:
            kind, word, _ = tokens[at]
            if word == end and kind in ("mark", "end"):
                at += 1
                return found
            if word in (",", ";"):
                at += 1
                continue
            if kind not in ("word", "text"):
                raise wrong(at)
            at += 1
            colon = tokens[at][1] == ":"
            at += colon
            into = found.fields.setdefault(word, [])
            if tokens[at][1] in ("{", "<") and tokens[at][0] == "mark":
                at += 1
                into.append(message("}" if tokens[at - 1][1] == "{" else ">", depth + 1))
            elif tokens[at][1] == "[" and colon:
                at += 1
                while tokens[at][1] != "]":
                    if tokens[at][1] == ",":
                        at += 1
                        continue
                    into.append(value())
                at += 1
            elif colon:
                into.append(value())
            else:
                raise wrong(at)

    return message("", 0)
