"""Fourier transforms, windows and filter banks."""

from __future__ import annotations

from sterna.frontends.onnx.translation import Translator

TRANSLATORS: dict[str, Translator] = {}
