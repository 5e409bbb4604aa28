"""Small models of every kind of tensor and size, and bundles of them with golden sets, which every runtime replays."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sterna.api import compile_model, options_of
from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files
from sterna.debug.golden import golden_files, golden_sets
from sterna.frontends.tflite.metadata import BUFFER
from support.data_sized import detector
from support.open_networks import encoder
from support.string_models import labels
from support.tflite_builder import ModelWriter, Scale
from support.tflite_metadata import described, means_of_channels, with_labels
from support.trained import digits

BUNDLES = ("digits", "open", "sizes", "labels", "counter", "quantized", "relu", "halves")
"""A trained one; open sizes; sizes that data decide; strings; states; quantized; next to nothing; float16."""

_FOLDER = tempfile.TemporaryDirectory(prefix="sterna-golden-")


def relu() -> onnx.ModelProto:
    """Next to no work: what it costs to run a model is all there is."""
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> relu (float[4] x) => (float[4] y) { y = Relu(x) }'
    )


def counter() -> ModelWriter:
    """The sum of all inputs so far, beginning with sevens."""
    model = ModelWriter()
    g, first = model.main, model.graph("first")
    handle = first.tensor("resource", ())
    first.op("VAR_HANDLE", [], [handle], "VarHandleOptions", container="", sharedName="sum")
    first.op("ASSIGN_VARIABLE", [handle, first.constant(np.full(2, 7, np.float32))], [], "AssignVariableOptions")
    g.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    x, own = g.input(np.zeros(2, np.float32)), g.tensor("resource", ())
    old, new = g.tensor("float32", (2,)), g.output("float32", (2,))
    g.op("VAR_HANDLE", [], [own], "VarHandleOptions", container="", sharedName="sum")
    g.op("READ_VARIABLE", [own], [old], "ReadVariableOptions")
    g.op("ADD", [old, x], [new], "AddOptions")
    g.op("ASSIGN_VARIABLE", [own, new], [], "AssignVariableOptions")
    return model


def quantized(rows: int = 5, columns: int = 6) -> bytes:
    """Integers that stand for real numbers, and labels for the outputs."""
    model = means_of_channels("int8", Scale(0.5, 3), rows, columns)
    model.metadata(BUFFER, described([127.5], [127.5]))
    return with_labels(model.content())


def halves() -> onnx.ModelProto:
    """Numbers of 16 bits in and out."""
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> halves (float16[3, 5] x, float16[5] b)'
        " => (float16[3, 5] y, float16[3] m)"
        "{ s = Add(x, b) y = Tanh(s) t = ReduceMean<axes = [1], keepdims = 0>(y) m = Relu(t) }"
    )


@lru_cache(maxsize=1)
def _models() -> dict[str, tuple[Any, dict[str, tuple[int, int]] | None, dict[str, bytes]]]:
    """Of every bundle the model, its open dimensions, and its golden sets: the same files for every target."""
    sources: dict[str, tuple[Any, dict[str, tuple[int, int]] | None]] = {
        "digits": (digits().file, None),
        "open": (encoder(), {"batch": (1, 8), "seq": (1, 48)}),
        "sizes": (detector(30, 3, None), None),
        "labels": (labels(), None),
        "relu": (relu(), None),
        "halves": (halves(), None),
    }
    for name, content in (("counter", counter().content()), ("quantized", quantized())):
        file = Path(_FOLDER.name) / f"{name}.tflite"
        file.write_bytes(content)
        sources[name] = (file, None)
    return {
        name: (model, dims, golden_files(*golden_sets(model, options_of(dims=dims), 3)))
        for name, (model, dims) in sources.items()
    }


def write_bundles(place: Path, target: str = "host", generator: str = "llvm") -> Path:
    """The bundles for a target, each in a folder of its name."""
    place.mkdir(parents=True, exist_ok=True)
    for name, (model, dims, golden) in _models().items():
        compiled = compile_model(model, target, None, dims, generator)
        write_files(bundle_files(compiled, golden), place / name)
    return place


def steps(bundle: Path) -> tuple[bytes, str]:
    """The data of golden.bin, behind it the numbers of strings; and what to do with them, line by line, as
    runtime_c/test/golden.cpp reads it."""
    graph = json.loads((bundle / "graph.json").read_text())
    golden = json.loads((bundle / "golden.json").read_text())
    data, lines = bytearray((bundle / "golden.bin").read_bytes()), []
    table = json.loads((bundle / "strings.json").read_text())["strings"] if "strings.json" in graph["files"] else []
    values = {side: [graph["values"][v] for v in graph[side]] for side in ("inputs", "outputs")}

    def place(side: str, row: dict[str, Any], words: list[str]) -> str:
        number = [value["name"] for value in values[side]].index(row["name"])
        if row["dtype"] != "string":
            return f"{number} {row['offset']} {row['bytes']}"
        for word in row["strings"]:
            if word not in words:
                words.append(word)
        numbers = np.array([words.index(word) for word in row["strings"]], np.int64).tobytes()
        data.extend(numbers)
        return f"{number} {len(data) - len(numbers)} {len(numbers)}"

    for each in golden["sets"]:
        words = list(table)
        lines += ["reset", *(f"dim {name} {size}" for name, size in _dims(graph, values["inputs"], each["inputs"]))]
        lines += [f"in {place('inputs', row, words)}" for row in each["inputs"]]
        lines.append("run")
        for row in each["outputs"]:
            tolerance = max(golden["tolerance"], row.get("tolerance", 0.0))
            sizes = " ".join(map(str, row["dims"]))
            lines.append(f"out {place('outputs', row, words)} {tolerance} {len(row['dims'])} {sizes}")
    return bytes(data), "\n".join(lines) + "\n"


def _dims(graph: dict[str, Any], inputs: list[Any], rows: list[Any]) -> Iterator[tuple[str, int]]:
    """The sizes of open dimensions in a golden set."""
    found = {}
    for value in inputs:
        row = next(row for row in rows if row["name"] == value["name"])
        found |= {size[1]: n for size, n in zip(value["dims"], row["dims"], strict=True) if isinstance(size, list)}
    return ((graph["symbols"][symbol]["name"], size) for symbol, size in found.items())
