"""What is said of a file, or of one of its operators, that the code which reads it trips over.

A translator checks what it is given, yet a file can hold what nobody thought of: operands of no dimensions, settings
that are no numbers. Tripping over one is a refusal, with the place, so that a mistake of ours can still be found.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sterna.errors import SternaError, error
from sterna.ir.graph import Value

#: What Python raises where values are not what the code expects. Anything else is a mistake of ours.
TRIPS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def tripped(problem: Exception, label: str, operands: Iterable[object]) -> SternaError:
    """The error (E0113) for an operator whose translation trips."""
    kinds = ", ".join(str(v.type) if isinstance(v, Value) else "nothing" if v is None else "a list" for v in operands)
    return _error(problem, f"{label} of {kinds or 'nothing'} is not supported with what the model says of it")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What a front end trips over outside of operators becomes an error (E0113) of the file of that name; so does what
    is nested too deeply."""
    try:
        yield
    except (*TRIPS, RecursionError) as problem:
        raise _error(problem, f"{name} says what a model of its format cannot say") from None


def _error(problem: Exception, title: str) -> SternaError:
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    place = f"at {'/'.join(Path(frame.filename).parts[-2:])}, line {frame.lineno}, in {frame.name}"
    fix = "export the model again; if it runs elsewhere, please report it with this message"
    return error("E0113", title, f"{type(problem).__name__}: {problem}", place, fix=fix)
