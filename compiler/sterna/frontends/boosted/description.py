"""Facts about a model of XGBoost or LightGBM, without compiling it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from sterna.frontends.boosted.model import Boosted
from sterna.frontends.boosted.reader import graph_of, load
from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.ir.graph import Value


def describe(path: str | os.PathLike[str], library: str) -> Description:
    """The facts of a file of boosted trees of a library (`reader.read`); every tree counts as a node.

    Raises:
        SternaError: E0101, E0103 or E0104, it is not a model that can be read.
    """
    boosted = load(path, library)
    forest, linear = boosted.forest, boosted.linear
    if forest is not None:
        count, name = len(forest.roots), "decision tree"
        numbers = [np.asarray(table) for table in (forest.values, forest.weights)]
    else:
        count, name = 1, "linear booster"
        numbers = [] if linear is None else [np.asarray(linear)]
    graph = graph_of(boosted)
    return Description(
        Path(path).name,
        "",
        {},
        (ModelTensor("X", "float32", ("batch", boosted.features)),),
        tuple(_tensor(value, name) for value, name in zip(graph.outputs, graph.output_names, strict=True)),
        (OperatorUse(name, count, "yes"),),
        count,
        sum(table.size for table in numbers),
        sum(table.nbytes for table in numbers),
        (),
        format=f"{boosted.kind}, {_task(boosted)}",
        sizes_ready=True,
    )


def _tensor(value: Value, name: str) -> ModelTensor:
    return ModelTensor(name, value.dtype, ("batch", *value.type.sizes[1:]))


def _task(boosted: Boosted) -> str:
    if not boosted.classifies:
        return "regression or ranking"
    return f"{max(boosted.groups, 2)} classes"
