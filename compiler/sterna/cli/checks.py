"""Tensors beside what they should be, as text and as JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from sterna.debug.comparison import TensorCheck


def check_json(check: TensorCheck) -> dict[str, Any]:
    row: dict[str, Any] = dataclasses.asdict(check)
    row.update(shape=list(check.shape), at=list(check.at))
    return {key: finite(value) if isinstance(value, float) else value for key, value in row.items()}


def number(value: float | str) -> str:
    return repr(value) if isinstance(value, str) else f"{value:.7g}"


def finite(value: float) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else None
