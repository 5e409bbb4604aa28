"""What the Java runtime's tests run: bundles, the native libraries, the classes, Maven."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

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
from support.tools import ROOT, need
from support.trained import digits

RUNTIME = ROOT / "runtime_android"


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


def quantized() -> bytes:
    """Integers that stand for real numbers, and labels for the outputs."""
    model = means_of_channels("int8", Scale(0.5, 3))
    model.metadata(BUFFER, described([127.5], [127.5]))
    return with_labels(model.content())


def write_bundles(place: Path, target: str = "host") -> Path:
    """The bundles that the tests in runtime_android and of sterna.hpp replay, each with golden sets."""
    models: dict[str, tuple[object, dict[str, tuple[int, int]] | None]] = {
        "digits": (digits().file, None),
        "open": (encoder(), {"batch": (1, 8), "seq": (1, 48)}),
        "sizes": (detector(30, 3, None), None),
        "labels": (labels(), None),
        "relu": (relu(), None),
    }
    place.mkdir(parents=True, exist_ok=True)
    for name, content in (("counter", counter().content()), ("quantized", quantized())):
        file = place / f"{name}.tflite"
        file.write_bytes(content)
        models[name] = (file, None)
    for name, (model, dims) in models.items():
        golden = golden_files(*golden_sets(model, options_of(dims=dims), 3))  # type: ignore[arg-type]
        write_files(bundle_files(compile_model(model, target, None, dims, "llvm"), golden), place / name)  # type: ignore[arg-type]
    return place


def maven(*arguments: str, timeout: int = 500) -> str:
    """Runs Maven in a copy of nothing: the project itself, whose `target` is the caller's to name."""
    program = need("mvn", "builds the Java runtime")
    need("javac", "compiles the Java runtime")
    done = subprocess.run(
        [program, "-B", "-ntp", "-f", str(RUNTIME / "pom.xml"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**os.environ, "MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout
