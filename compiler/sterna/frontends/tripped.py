"""What is said of an operator whose translation trips over what a file says of it.

A translator checks what it is given, yet a file can hold what nobody thought of: operands of no dimensions, settings
that are no numbers. Tripping over one is a refusal, with the place, so that a mistake of ours can still be found.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path

from sterna.errors import SternaError, error
from sterna.ir.graph import Value

#: What Python raises where values are not what the code expects. Anything else is a mistake of ours.
TRIPS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def tripped(problem: Exception, label: str, operands: Iterable[object]) -> SternaError:
    """The error (E0113) for an operator whose translation trips."""
    kinds = ", ".join(str(v.type) if isinstance(v, Value) else "nothing" if v is None else "a list" for v in operands)
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    place = f"at {'/'.join(Path(frame.filename).parts[-2:])}, line {frame.lineno}, in {frame.name}"
    title = f"{label} of {kinds or 'nothing'} is not supported with what the model says of it"
    fix = "export the model again; if it runs elsewhere, please report it with this message"
    return error("E0113", title, f"{type(problem).__name__}: {problem}", place, fix=fix)
