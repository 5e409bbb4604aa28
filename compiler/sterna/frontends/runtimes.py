"""What the runtimes of the formats have in common: the errors of those that are missing, or that refuse a model."""

from __future__ import annotations

import re

from sterna.errors import SternaError, error
from sterna_runtime.advice import Advice, Option

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def not_installed(distribution: str) -> SternaError:
    """The error for a runtime that is not there (E0004)."""
    return error("E0004", f"{distribution} is not installed", fix=f"pip install {distribution}")


#: Characters of a line of what a runtime says: some show the whole model.
_SHOWN = 300
#: Why models of TensorFlow.js have no reference.
JAVASCRIPT = "TensorFlow.js runs in browsers and Node, where verify does not start it: run both there to compare them"


def cannot_run(name: str, problem: Exception) -> SternaError:
    """The error for a runtime that refuses a model (E0009); `problem` is what it raised."""
    said = _COLOURS.sub("", str(problem)).strip().splitlines()[:3]
    lines = [line[:_SHOWN] + (" ..." if len(line) > _SHOWN else "") for line in said]
    reason = lines or [type(problem).__name__]
    return error("E0009", f"{name} cannot run the model", *reason, fix=Advice(Option("against", "interpreter")))
