"""Sampling, deformable convolution, and other operators on images and matrices."""

from __future__ import annotations

from sterna.frontends.onnx.translation import Translator

TRANSLATORS: dict[str, Translator] = {}
