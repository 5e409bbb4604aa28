"""What to do about an error, as data: the same advice names flags on the command line, and arguments in Python.

    Advice("try ", Option("dims", {"batch": 1}))

is `try --dim batch=1` for who typed a command, and `try dims={"batch": 1}` for who called `sterna.compile`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Surface = Literal["cli", "python"]
"""Where an error is read: at the command line, or in a program that called the Python interface."""

_PLACEHOLDER = re.compile(r"<\w+>")
#: Keywords whose flag has another name; of all others it is the keyword itself.
_FLAGS = {
    "dims": "--dim",
    "shapes": "--shape",
    "values": "--value",
    "pools": "--pool",
    "compiler": "--cc",
    "version": "--package-version",
}


@dataclass(frozen=True)
class Option:
    """An option of the compiler with a value.

    Args:
        keyword: its name in Python.
        value: what it is set to: a string, a number, True; for `dims`, `shapes` and `device_for` a mapping by name.
            Words among sizes (`<size>`) stand as they are. Without a value only the option is named.
    """

    keyword: str
    value: Any = None

    def __hash__(self) -> int:
        return hash(self.text("python"))  # a mapping has none

    def text(self, surface: Surface) -> str:
        """As it is written there."""
        flag = _FLAGS.get(self.keyword, "--" + self.keyword.replace("_", "-"))
        if isinstance(self.value, Mapping):
            if surface == "python":
                rows = ", ".join(f'"{name}": {_python(size)}' for name, size in self.value.items())
                return f"{self.keyword}={{{rows}}}"
            joined = _range if self.keyword == "dims" else _joined
            return " ".join(_quoted(f"{flag} ", f"{n}={joined(size)}") for n, size in self.value.items())
        if self.value is None:
            return self.keyword if surface == "python" else flag
        if surface == "python":
            return f'{self.keyword}="{self.value}"' if isinstance(self.value, str) else f"{self.keyword}={self.value}"
        return flag if self.value is True else f"{flag} {self.value}"


@dataclass(frozen=True)
class Compile:
    """Compiling a model into a bundle: a command, or a call.

    Args:
        model, output: paths, or words that stand for them.
        options: further ones.
    """

    model: str
    output: str
    options: tuple[Option, ...] = ()

    def text(self, surface: Surface) -> str:
        """As it is written there."""
        if surface == "python":
            return f"sterna.compile_to({', '.join((_path(self.output), _path(self.model), *self._options(surface)))})"
        return " ".join(("sterna compile", self.model, *self._options(surface), "-o", self.output))

    def _options(self, surface: Surface) -> list[str]:
        return [option.text(surface) for option in self.options]


class Advice:
    """Text with options in it. Immutable; as a string it is what Python shows."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str | Option | Compile | Advice) -> None:
        flat: list[str | Option | Compile] = []
        for part in parts:
            flat += part.parts if isinstance(part, Advice) else (part,)
        self.parts: tuple[str | Option | Compile, ...] = tuple(flat)

    @staticmethod
    def join(between: str, advices: Iterable[str | Option | Compile | Advice]) -> Advice:
        """All of them, with a text between each two."""
        parts: list[str | Option | Compile | Advice] = []
        for advice in advices:
            parts += [between, advice] if parts else [advice]
        return Advice(*parts)

    def text(self, surface: Surface) -> str:
        """As it is read there."""
        return "".join(part if isinstance(part, str) else part.text(surface) for part in self.parts)

    def __str__(self) -> str:
        return self.text("python")

    def __repr__(self) -> str:
        return f"Advice{self.parts!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Advice) and other.parts == self.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __reduce__(self) -> Any:
        return Advice, self.parts


Fix = str | Option | Compile | Advice
"""What mends an error: the same words everywhere, or advice."""


def dims(sizes: Mapping[str, Any]) -> Option:
    """Sizes of named dimensions; of one that stays open (least, greatest), or (least, greatest, divisor)."""
    return Option("dims", sizes)


def shapes(sizes: Mapping[str, Sequence[Any] | None]) -> Option:
    """Sizes of inputs; None for a sequence or an optional that holds nothing."""
    return Option("shapes", sizes)


def fix_text(fix: Fix, surface: Surface) -> str:
    """Advice as it is read there."""
    return fix if isinstance(fix, str) else fix.text(surface)


def _python(size: Any) -> str:
    """A value of a mapping: sizes, which may come as text, a word, or an expression."""
    if isinstance(size, Sequence) and not isinstance(size, str):
        return f"({', '.join(map(str, size))}{',' if len(size) == 1 else ''})"
    quoted = isinstance(size, str) and re.search(r"[A-Za-z]", _PLACEHOLDER.sub("", size))
    return f'"{size}"' if quoted else str(size)


def _joined(size: Any) -> str:
    if size is None:
        return "none"
    return ",".join(map(str, size)) if isinstance(size, Sequence) and not isinstance(size, str) else str(size)


def _range(size: Any) -> str:
    """`1`, `1..8` or `32..640:32`."""
    if not isinstance(size, Sequence) or isinstance(size, str):
        return str(size)
    return "..".join(map(str, size[:2])) + "".join(f":{divisor}" for divisor in size[2:])


def _path(path: str) -> str:
    """A path as a string of Python; capitals stand for what the reader knows."""
    return path if path.isupper() else f'"{path}"'


def _quoted(flag: str, value: str) -> str:
    """A flag with its value, in quotation marks where a shell would take it apart.

    Names come from models: where a shell would act on something within double quotation marks, they are single ones.
    """
    rest = _PLACEHOLDER.sub("", value)  # <size>
    if all(letter.isalnum() or letter in "=,.:_/+-@%" for letter in rest):
        return flag + value
    return flag + (shlex.quote(value) if any(letter in '"$`\\!' for letter in value) else f'"{value}"')
