"""Resize with every setting, and upsampling, where positions or weights are no simple fractions."""

from __future__ import annotations

from sterna.frontends.onnx.translation import Translator

TRANSLATORS: dict[str, Translator] = {}
