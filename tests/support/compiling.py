"""From a graph of a few nodes to what its compiled kernels compute, and how that is compared."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sterna.bundle.graph_json import graph_json
from sterna.bundle.writer import write_bundle
from sterna.codegen import c
from sterna.driver import Compiled, Library, Options, compile_graph
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.libraries import build_library
from sterna.ops import Builder
from sterna.passes.kernels import Call
from sterna.passes.memory_plan import plan_memory
from sterna.passes.pack import pack_params
from sterna.passes.plan_kernels import realize
from sterna.passes.views import Views
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna_runtime import Bundle, load
from sterna_runtime.validation import check_graph

Arrays = Mapping[str, np.ndarray]


def compiled(graph: Graph, target: str | Target = "host", generator: str = "c", debug: bool = False) -> Compiled:
    machine = load_target(target) if isinstance(target, str) else target
    return compile_graph(graph, "small", Options(machine, generator, debug=debug))


def build(
    graph: Graph,
    directory: Path,
    target: str | Target = "host",
    generator: str = "c",
    threads: int = 1,
    debug: bool = False,
) -> Bundle:
    """The graph's bundle, loaded."""
    return load(write_bundle(compiled(graph, target, generator, debug), directory), threads)


def run(graph: Graph, inputs: Arrays, directory: Path, generator: str = "c", threads: int = 1) -> dict[str, np.ndarray]:
    """What the compiled graph computes."""
    with build(graph, directory, generator=generator, threads=threads) as bundle:
        return bundle.run(inputs)


def facts(made: Compiled) -> dict[str, Any]:
    """What graph.json says of a model for OpenCL."""
    files = {"params.bin": made.params, **{each.name: each.data for each in made.libraries}}
    if made.module:
        files["kernels.cl"] = made.module.encode()
    graph: dict[str, Any] = json.loads(graph_json(made, files))
    check_graph(graph)
    return graph


def input_value(builder: Builder, array: np.ndarray, name: str = "x") -> Value:
    """An input for arrays like this one."""
    return Value(builder.name(name), tensor_type(dtypes.from_numpy(array.dtype), array.shape))


def check(found: Arrays, expected: Arrays, tolerance: float = 2e-5) -> None:
    """Equal up to rounding: relative to the largest finite value of each tensor; integers exactly."""
    assert list(found) == list(expected)
    for name, want in expected.items():
        have = found[name]
        assert have.shape == want.shape, name
        assert have.dtype == want.dtype, name
        if want.dtype.kind not in "fV":
            np.testing.assert_array_equal(have, want, err_msg=name)
            continue
        a, b = have.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=name)
        np.testing.assert_array_equal(np.where(np.isinf(b), a, 0), np.where(np.isinf(b), b, 0), err_msg=name)
        finite = np.isfinite(b)
        if finite.any():
            scale = max(1e-30, float(np.abs(b[finite]).max()))
            error = float(np.abs(a[finite] - b[finite]).max()) / scale
            assert error <= tolerance, f"{name}: relative error {error:.2e}"


def compiled_schedule(
    schedule: Schedule, constants: Sequence[np.ndarray] = (), generator: str = "llvm", target: Target | None = None
) -> Compiled:
    """One kernel compiled with a schedule of the test's own, as a model of one node.

    Args:
        constants: one for every parameter of the kernel.
    """
    kernel, machine = schedule.kernel, target or load_target("host")
    values = {t: Value(t.name, tensor_type(t.dtype, t.shape)) for t in (*kernel.inputs, *kernel.outputs)}
    inputs, outputs = tuple(values[t] for t in kernel.inputs), tuple(values[t] for t in kernel.outputs)
    graph = Graph("kernel", inputs, outputs, ())
    call = Call("kernel", ("kernel",), kernel, inputs, outputs, tuple(constants), {}, (), "kernel")
    planned = realize(call, schedule, machine, "k0")
    options, functions, views = Options(machine, generator), [planned.function], Views()
    plan = plan_memory(graph, [call], views)
    if machine.static:
        plan = plan.with_scratch([planned.function.scratch_bytes], machine.tensor_memories)
    contents = BytesIO()
    params_at = pack_params([call], [planned], [0], contents, machine.alignment)
    library = build_library(functions, [["kernel"]], "kernel", options)
    source = c.generate(functions, machine, "kernel", [["kernel"]])
    return Compiled(
        graph=graph,
        options=options,
        model="kernel",
        views=views,
        calls=(call,),
        kernels=(planned,),
        kernel_of=(0,),
        plan=plan,
        params=contents.getvalue(),
        params_at=params_at,
        states_at=(),
        source=source,
        libraries=(Library(machine.library, machine, library, (planned,)),),
    )


def run_schedule(
    schedule: Schedule,
    inputs: Arrays,
    constants: Sequence[np.ndarray] = (),
    generator: str = "llvm",
    threads: int = 1,
    target: Target | None = None,
) -> dict[str, np.ndarray]:
    """What a scheduled kernel computes on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = write_bundle(compiled_schedule(schedule, constants, generator, target), Path(folder) / "bundle")
        with load(bundle, threads) as loaded:
            return loaded.run(inputs)
