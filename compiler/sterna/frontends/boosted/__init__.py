"""The front ends of gradient boosted trees: the model files of XGBoost (JSON and UBJSON) and of LightGBM (text)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sterna.frontends.boosted.reader import read

__all__ = ["read"]


def __getattr__(name: str) -> Any:
    if name == "read":  # with what it needs only when a model is read
        return import_module("sterna.frontends.boosted.reader").read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
