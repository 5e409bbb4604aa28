"""The TensorFlow Lite front end."""

from sterna.frontends.tflite.reader import read
from sterna.frontends.tflite.schema import is_tflite

__all__ = ["is_tflite", "read"]
