"""ONNX Runtime's own operators, which its optimizer and quantizer put into models."""

from __future__ import annotations

from sterna.frontends.onnx.translation import Translator

MICROSOFT_TRANSLATORS: dict[str, Translator] = {}
