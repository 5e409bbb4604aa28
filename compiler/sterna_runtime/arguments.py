"""Arguments of the Python interface, checked before anything is done: everything that is wrong at once, by its name."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral
from typing import Any

from sterna_runtime.advice import Fix
from sterna_runtime.errors import Diagnostic, SternaError

#: Sizes of inputs by name; None for a sequence or an optional that holds nothing.
Shapes = Mapping[str, Sequence[int] | None]
#: One size; or the least and the greatest of one that stays open, and what divides all of them.
OwnSize = int | tuple[int, int] | tuple[int, int, int]
#: The same, or an expression of the names of other dimensions, as "past + 1".
DimSize = OwnSize | str
#: Sizes of named dimensions.
Dims = Mapping[str, DimSize]

_SHAPES = 'shapes={"NAME": (1, 3, 224, 224)}'
_DIMS = 'dims={"NAME": 1}, or (1, 8) for one that stays open, or (32, 640, 32) for multiples of 32, or "past + 1"'


class Arguments:
    """Checks arguments one by one and remembers what is wrong with them; `done` raises it.

    Args:
        code: of the errors.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self.problems: list[Diagnostic] = []

    def done(self) -> None:
        """Raises the mistakes, if there are any."""
        if self.problems:
            raise SternaError(self.problems)

    def wrong(self, name: str, value: Any, needs: str, fix: Fix | None = None) -> None:
        """Notes that an argument is something else than what it must be."""
        self.problems.append(Diagnostic(self.code, f"{name} is {shown(value)}; {needs}", (), fix))

    def integer(self, name: str, value: Any, least: int, most: int | None = None) -> int:
        """An integer of Python or NumPy; a truth value is none."""
        if is_integer(value) and value >= least:
            if most is None or value <= most:
                return int(value)
            self.wrong(name, value, f"at most {most} are possible")
            return least
        fix = None
        if isinstance(value, str) and value.isdecimal() and int(value) >= least:
            fix = f"{name}={int(value)}"
        self.wrong(name, value, f"an integer of at least {least} is needed", fix)
        return least

    def flag(self, name: str, value: Any) -> bool:
        """True or False."""
        if not (isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")):
            self.wrong(name, value, "True or False is needed")
        return bool(value) if not isinstance(value, str) else False

    def choice(self, name: str, value: Any, known: Collection[str]) -> str:
        """One of some words."""
        if not isinstance(value, str) or value not in known:
            self.wrong(name, value, f"one of {', '.join(known)} is needed")
        return str(value)

    def text(self, name: str, value: Any, optional: bool = False) -> None:
        """A string that is not empty; None too, where it may be left out."""
        if not (isinstance(value, str) and value) and not (optional and value is None):
            self.wrong(name, value, "a string is needed")

    def path(self, name: str, value: Any, optional: bool = False) -> None:
        """A path: a string or `os.PathLike`."""
        if optional and value is None:
            return
        if isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str):
            if not os.fspath(value) or "\0" in os.fspath(value):
                self.wrong(name, value, "a path is needed")
            return
        self.wrong(name, value, "a path is needed, as a string or pathlib.Path", _path_fix(value))

    def function(self, name: str, value: Any) -> None:
        """Something that can be called, or None."""
        if value is not None and not callable(value):
            self.wrong(name, value, "a function is needed")

    def model(
        self,
        value: Any,
        is_model: Callable[[object], bool],
        accepted: Callable[[], str],
        instead_of_bytes: Callable[[bytes], str],
        instead_of_stream: Callable[[], str],
    ) -> None:
        """A path, or an object that is a model.

        Args:
            accepted: all that may be given, in words; the others say what to give in place of a file's bytes and of a
                stream.
        """
        if isinstance(value, (str, os.PathLike)):
            self.path("model", value)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            is_path = len(value) < 4096 and os.path.exists(bytes(value))  # noqa: PTH110 (bytes)
            fix = f"model={os.fsdecode(bytes(value))!r}" if is_path else instead_of_bytes(bytes(value))
            self.wrong("model", value, f"{accepted()} is needed", fix)
        elif hasattr(value, "read"):
            named = isinstance(getattr(value, "name", None), str)
            fix = f"model={value.name!r}, its path" if named else instead_of_stream()
            self.wrong("model", value, f"{accepted()} is needed", fix)
        elif not is_model(value):
            self.wrong("model", value, f"{accepted()} is needed")

    def target(self, value: Any, described: type) -> None:
        """A target's name, a path of a description, or a target of that type."""
        if not isinstance(value, described) and not (isinstance(value, (str, os.PathLike)) and os.fspath(value)):
            self.wrong("target", value, "a target's name or the path of its .toml file is needed", 'target="host"')

    def shapes(self, value: Any) -> Shapes | None:
        """Sizes of inputs, as plain integers."""
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.wrong("shapes", value, "a dict is needed, of sizes by input", _SHAPES)
            return None
        result: dict[str, Sequence[int] | None] = {}
        for name, sizes in value.items():
            if not isinstance(name, str):
                self.wrong("a name in shapes", name, "a string is needed", _SHAPES)
            elif sizes is None:
                result[name] = None
            elif is_sizes(sizes):
                result[name] = tuple(int(size) for size in sizes)
            else:
                self.wrong(f'shapes["{name}"]', sizes, "a tuple of integers is needed", _SHAPES)
        return result

    def values(self, value: Any) -> dict[str, Any]:
        """Numbers by input, each one or a row of them."""
        if value is None:
            return {}
        fix = 'values={"min_size": 20.0}'
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            self.wrong("values", value, "a dict is needed, of numbers by input", fix)
            return {}
        found: dict[str, Any] = {}
        for name, given in value.items():
            numbers = given.tolist() if hasattr(given, "tolist") else given
            row = tuple(numbers) if isinstance(numbers, (list, tuple)) else (numbers,)
            if not all(isinstance(number, (int, float)) for number in row):
                self.wrong(f'values["{name}"]', given, "a number is needed, or a row of numbers", fix)
            found[name] = row if isinstance(numbers, (list, tuple)) else numbers
        return found

    def sizes(self, name: str, value: Any) -> dict[str, int] | None:
        """Numbers of bytes by name, as plain integers."""
        if value is None:
            return None
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.wrong(name, value, "a dict is needed, of bytes by name", f'{name}={{"sram": 65536}}')
            return None
        return {key: self.integer(f'{name}["{key}"]', size, 1) for key, size in value.items()}

    def dims(self, value: Any) -> Dims | None:
        """Sizes of dimensions, as plain integers."""
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.wrong("dims", value, "a dict is needed, of sizes by dimension", _DIMS)
            return None
        result: dict[str, DimSize] = {}
        for name, size in value.items():
            if not isinstance(name, str):
                self.wrong("a name in dims", name, "a string is needed", _DIMS)
            elif is_integer(size):
                result[name] = int(size)
            elif is_sizes(size) and len(size) == 2:
                result[name] = (int(size[0]), int(size[1]))
            elif is_sizes(size) and len(size) == 3:
                result[name] = (int(size[0]), int(size[1]), int(size[2]))
            elif isinstance(size, str) and is_expression(size):
                result[name] = size
            else:
                needs = "an integer, (least, greatest), (least, greatest, divisor) or an expression is needed"
                self.wrong(f'dims["{name}"]', size, needs, _DIMS)
        return result


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, of Python or NumPy; truth values are not meant as numbers."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_expression(text: str) -> bool:
    """Whether a text may be a size that is made of other dimensions, by their names."""
    if re.fullmatch(r"[\w\s+*/%(),-]+", text) is None:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.Name) for node in ast.walk(tree))


def is_sizes(value: Any) -> bool:
    """Whether a value is a row of integers."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
        return False
    return all(map(is_integer, value))


def shown(value: Any) -> str:
    """A value in an error: in full while that is short, else its type."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    kind = type(value).__name__
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    if isinstance(value, (str, list, tuple, dict, set)):
        text = repr(value)
        return f"{text} ({kind})" if len(text) <= 40 else f"{article} {kind}"
    return "bytes" if isinstance(value, (bytes, bytearray, memoryview)) else f"{article} {kind}"


def _path_fix(value: Any) -> str | None:
    if isinstance(value, bytes):
        return "os.fsdecode(path)"
    name = getattr(value, "name", None)
    return f'"{name}", its path' if isinstance(name, str) and hasattr(value, "fileno") else None
