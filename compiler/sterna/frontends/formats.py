"""The registry of front ends: which of them reads a model, and all that the rest of the compiler asks them.

A model says what it is by its content: every front end is asked how sure it is, and the surest reads it. Nothing
outside of `frontends` knows a format by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, overload

import numpy as np

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends import custom
from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Dims, Frontend, ReadOptions, Reference
from sterna.frontends.source import Source, looks_like
from sterna.ir.graph import Graph
from sterna_runtime.advice import Advice, Option
from sterna_runtime.advice import dims as dims_given

#: A path of a file or a folder, an object of Python that a front end reads, or the `Source` made of one.
Model = object

#: Modules of the front ends that come with Sterna; each has a list of them, and is quick to import.
_MODULES = (
    "sterna.frontends.onnx.frontend",
    "sterna.frontends.tflite.frontend",
    "sterna.frontends.boosted.frontend",
    "sterna.frontends.keras.frontend",
