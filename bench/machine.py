"""What this machine can do at most: the figures that everything else is a percentage of."""

from __future__ import annotations

from sterna.report.limits import Limits, describe, limits

__all__ = ["Limits", "describe", "limits"]
