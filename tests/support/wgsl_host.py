"""Runs the kernels of a compiled model in WGSL: a host that reads graph.json, for models without control flow, on
Mesa's lavapipe by way of the package `wgpu`.

Everything that kernels write is one buffer, as `sterna.codegen.wgsl` says: status, arena, inputs, outputs, scratch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

from sterna.bundle.graph_json import graph_json
from sterna.codegen.dialects import dialect
from sterna.codegen.generators import KernelSet, source
from sterna.codegen.source import print_kernel
from sterna.codegen.wgsl import workgroup
from sterna.driver import Compiled
from sterna.ir import dtypes
from sterna.loops.program import Function
from sterna.targets.description import load_target
from sterna.targets.target import Target
from support.device_memory import params_of

#: To whose multiples buffers are aligned, and workgroups along one dimension at most.
ALIGNMENT, ALONG = 256, 65535


def wgsl_target(groups: bool = False) -> Target:
    """The target webgpu as a processor's, whose kernels are all source of one kind.

    Args:
        groups: tasks are run by workgroups.
    """
    target = replace(load_target("webgpu"), device=None)
    return target if groups else replace(target, threads=None, memories=())


class KernelError(Exception):
    """A kernel set a status other than 0."""


class UnsupportedModelError(Exception):
    """A model that this host has no means to run: it says why."""


class Device:
    """An adapter of the package `wgpu`; any that is no GPU's, as results are to be the same everywhere."""

    def __init__(self) -> None:
        self.wgpu = pytest.importorskip("wgpu", reason="wgpu is not installed")
        adapters = [a for a in self.wgpu.gpu.enumerate_adapters_sync() if a.info["adapter_type"] == "CPU"]
        if not adapters:
            pytest.skip("needs mesa-vulkan-drivers: runs WGSL on the CPU")
        self.device = adapters[0].request_device_sync()
        kinds = ("storage", "read-only-storage", "read-only-storage")
        seen = self.wgpu.ShaderStage.COMPUTE
        entries = [{"binding": n, "visibility": seen, "buffer": {"type": kind}} for n, kind in enumerate(kinds)]
        self.bindings = self.device.create_bind_group_layout(entries=entries)
        self.layout = self.device.create_pipeline_layout(bind_group_layouts=[self.bindings])

    def run(self, compiled: Compiled, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs for these inputs, by name.

        Raises:
            UnsupportedModelError: the model chooses, repeats or computes sizes, which is done between kernels.
        """
        if compiled.control:
            raise UnsupportedModelError("it has branches or loops")
        functions = [k.function for k in compiled.kernels]
        facts: dict[str, Any] = json.loads(graph_json(compiled, {"params.bin": compiled.params}))
        if any(not isinstance(n, int) for value in facts["values"] for n in value["dims"]):
            raise UnsupportedModelError("it has sizes that are known when it runs")
        places = Places(facts)
        memory = np.zeros(places.size, np.uint8)
        for index in facts["inputs"]:
            value = facts["values"][index]
            data = np.ascontiguousarray(inputs[value["name"]]).view(np.uint8).reshape(-1)
            memory[places.at[index] : places.at[index] + data.size] = data
        calls = [
            (functions[node["kernel"]], node["tasks"], node["params_at"], [places.at[n] for n in _operands(node)])
            for node in facts["nodes"]
        ]
        params = np.frombuffer(compiled.params, np.uint8)
        found = self._run(compiled.source, functions, calls, memory, params)
        return {facts["values"][n]["name"]: _tensor(found, places.at[n], facts["values"][n]) for n in facts["outputs"]}

    def run_function(self, function: Function, memory: dict[str, np.ndarray], target: Target) -> None:
        """Runs one kernel without open sizes; `memory` as of `opencl_host.Device.run_function`."""
        text = source(KernelSet("kernel", [function], [()]), target)
        inputs, outputs = (sorted(b, key=lambda each: each.slot) for b in (function.inputs, function.outputs))
        at, size = [], ALIGNMENT
        for b in (*inputs, *outputs):
            at.append(size)
            size += _aligned(memory[b.name].nbytes)
        words = np.zeros(size, np.uint8)
        for b, place in zip((*inputs, *outputs), at, strict=True):
            words[place : place + memory[b.name].nbytes] = memory[b.name].view(np.uint8)
        calls = [(function, int(function.n_tasks), 0, at)]
        found = self._run(text, [function], calls, words, params_of(function, memory), target)
        for b, place in zip(outputs, at[len(inputs) :], strict=True):
            memory[b.name][:] = found[place : place + memory[b.name].nbytes].view(memory[b.name].dtype)

    def _run(
        self,
        text: str,
        functions: Sequence[Function],
        calls: Sequence[tuple[Function, int, int, Sequence[int]]],
        memory: np.ndarray,
        params: np.ndarray,
        target: Target | None = None,
    ) -> np.ndarray:
        """The memory after these calls: a kernel, its tasks, where its constants begin, and its operands."""
        usage, device = self.wgpu.BufferUsage, self.device
        module = device.create_shader_module(code=text)
        shapes, pipelines = {}, {}
        for f in functions:
            shapes[f.name] = workgroup(print_kernel(f, dialect(target or wgsl_target()), ()).text)
            compute = {"module": module, "entry_point": f.name}
            pipelines[f.name] = device.create_compute_pipeline(layout=self.layout, compute=compute)
        grids = [_grid(f, tasks, shapes[f.name][0]) for f, tasks, _, _ in calls]
        scratch = max(
            (f.scratch_bytes * g * _alone(f, shapes) for (f, *_), g in zip(calls, grids, strict=True)), default=0
        )
        whole = np.concatenate([memory, np.zeros(_aligned(scratch), np.uint8)])
        words = device.create_buffer_with_data(data=whole, usage=usage.STORAGE | usage.COPY_SRC)
        constants = np.concatenate([params, np.zeros(ALIGNMENT - params.size % ALIGNMENT, np.uint8)])
        fixed = device.create_buffer_with_data(data=constants, usage=usage.STORAGE)
        encoder = device.create_command_encoder()
        for (f, tasks, params_at, operands), groups in zip(calls, grids, strict=True):
            if groups == 0:
                continue
            call = np.array(
                [tasks, 0, memory.size // 4, params_at // 4, 0, *(at // 4 for at in operands), 0], np.uint32
            )
            given = device.create_buffer_with_data(data=call, usage=usage.STORAGE)
            entries = [{"binding": n, "resource": {"buffer": b}} for n, b in enumerate((words, fixed, given))]
            encoding = encoder.begin_compute_pass()
            encoding.set_pipeline(pipelines[f.name])
            encoding.set_bind_group(0, device.create_bind_group(layout=self.bindings, entries=entries))
            encoding.dispatch_workgroups(min(groups, ALONG), ceil(groups / ALONG))
            encoding.end()
        device.queue.submit([encoder.finish()])
        found = np.frombuffer(device.queue.read_buffer(words), np.uint8)
        status = int(found[:4].view(np.int32)[0])
        if status != 0:
            raise KernelError(f"status {status}")
        return found


class Places:
    """Where in the buffer each value lies, in bytes, and how large it is; the arena follows the status."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.size = ALIGNMENT + _aligned(facts["arena"]["bytes"])
        self.at: list[int] = []
        for value in facts["values"]:
            storage = value["storage"]
            if storage["class"] in ("input", "output"):
                self.at.append(self.size)
                self.size += _aligned(storage["bytes"])
            else:
                self.at.append(ALIGNMENT + storage["offset"])


def _operands(node: dict[str, Any]) -> list[int]:
    return [*node["in"], *node["out"]]


def _tensor(memory: np.ndarray, at: int, value: dict[str, Any]) -> np.ndarray:
    data = memory[at : at + value["storage"]["bytes"]]
    return data.view(dtypes.to_numpy(value["dtype"])).reshape(value["dims"]).copy()


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _grid(function: Function, tasks: int, alone: int) -> int:
    """Workgroups of a call."""
    return tasks if function.has_threads else -(-tasks // alone)


def _alone(function: Function, shapes: dict[str, tuple[int, int, int]]) -> int:
    """Parts of a workgroup that have scratch of their own."""
    return 1 if function.has_threads else shapes[function.name][0]
