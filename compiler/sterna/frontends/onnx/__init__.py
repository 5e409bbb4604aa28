"""The ONNX front end, operator sets 1 to the newest that the installed `onnx` package knows."""

from sterna.frontends.onnx.reader import read

__all__ = ["read"]
