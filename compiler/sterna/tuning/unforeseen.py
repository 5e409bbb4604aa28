"""What strategies and passes do not foresee. Each is a bug of Sterna: it costs a trial, and the record says what it was
and where, so that `sterna tune log` can show it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from sterna.choices import Choice

#: What is raised there, beside errors that have a code.
UNFORESEEN = (AssertionError, IndexError, KeyError, ValueError, TypeError)
#: What the errors of such trials begin with.
INTERNAL = "error[E0901]: internal error: "
_MOST = 200
#: Is told of one that was met before a trial: the decisions that led there, and what was raised.
Bug = Callable[[Choice, BaseException], None]


def internal(problem: BaseException) -> str:
    """A line that names an exception and where it was raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(f"{INTERNAL}{type(problem).__name__}: {problem}".split())
    return f"{text[: _MOST - len(place)]}{place}"


__all__ = ["INTERNAL", "UNFORESEEN", "Bug", "internal"]
