"""Values of options, as words of a command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from sterna_runtime.arguments import DimSize, is_expression
from sterna_runtime.errors import error


def dim(text: str) -> tuple[str, DimSize]:
    """`batch=1` -> (name, size); `seq=1..512` -> (name, (least, greatest)): a dimension that stays open;
    `height=32..640:32` -> (name, (least, greatest, divisor)): one of multiples;
    `total=past+1` -> (name, text): an expression of others."""
    name, _, size = text.rpartition("=")
    least, dots, rest = size.partition("..")
    greatest, colon, divisor = rest.partition(":")
    try:
        if not name:
            raise ValueError
        if colon:
            return name, (int(least), int(greatest), int(divisor))
        if is_expression(size):
            return name, size.strip()
        return name, (int(least), int(greatest)) if dots else int(size)
    except ValueError:
        fix = "--dim batch=1, or --dim seq=1..512 for a size that is given when the model runs"
        title = f'--dim "{text}" is not of the form NAME=SIZE, NAME=LEAST..GREATEST[:DIVISOR] or NAME=EXPRESSION'
        raise error("E0002", title, fix=fix) from None


def numbers(option: str) -> Callable[[str], tuple[float, ...]]:
    """A parser of `0.5,1/255` -> floats, one, or one per channel."""

    def parse(text: str) -> tuple[float, ...]:
        try:
            return tuple(_number(word) for word in text.split(","))
        except ZeroDivisionError:
            raise error("E0002", f'{option} "{text}" divides by zero', fix=f"{option} 1/255") from None
        except ValueError:
            fix = f"{option} 127.5, or one per channel: {option} 123.7,116.3,103.5; 1/255 is a number too"
            raise error("E0002", f'{option} "{text}" is not a list of numbers', fix=fix) from None

    return parse


def _number(word: str) -> float:
    over, slash, under = word.partition("/")
    number = float(over) / float(under) if slash else float(over)
    if not math.isfinite(number):
        raise ValueError
    return number


def unique(pairs: Iterable[tuple[str, Any]], option: str) -> dict[str, Any]:
    """The pairs as a dict.

    Raises:
        SternaError: E0002, a name is given two values.
    """
    result: dict[str, Any] = {}
    for name, value in pairs:
        if result.setdefault(name, value) != value:
            raise error("E0002", f"{option} gives {name} twice", fix="give it once")
    return result
