"""What the runtimes of the formats have in common: the errors of those that are missing, or that refuse a model."""

from __future__ import annotations

from sterna.errors import SternaError, error
from sterna_runtime.advice import Advice, Option


def not_installed(distribution: str) -> SternaError:
    """The error for a runtime that is not there (E0004)."""
    return error("E0004", f"{distribution} is not installed", fix=f"pip install {distribution}")


def cannot_run(name: str, problem: Exception) -> SternaError:
    """The error for a runtime that refuses a model (E0009); `problem` is what it raised."""
    reason = str(problem).strip().splitlines()[:3] or [type(problem).__name__]
    return error("E0009", f"{name} cannot run the model", *reason, fix=Advice(Option("against", "interpreter")))
