"""Readers of model files: each turns one format into a `Graph` and only translates.

`register` makes a format known that Sterna does not read, or the translation of an operator that it does not know;
docs/frontends.md shows both.
"""

from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.formats import Registration, register
from sterna.frontends.frontend import Confidence, Extra, Frontend, ReadOptions, Reference, Runtime, Support
from sterna.frontends.source import Source

__all__ = [
    "Confidence",
    "Description",
    "Extra",
    "Frontend",
    "ModelTensor",
    "OperatorUse",
    "ReadOptions",
    "Reference",
    "Registration",
    "Runtime",
    "Source",
    "Support",
    "register",
]
