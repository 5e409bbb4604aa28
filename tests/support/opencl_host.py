"""Runs the kernels of a compiled model in OpenCL: a host that reads graph.json, for models without control flow.

Memory stays with the host; a node's buffers are copied to the device and back around its kernel, so that nothing is
asked of how a device aligns parts of its buffers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.bundle.graph_json import graph_json
from sterna.codegen.generators import KernelSet, source
from sterna.driver import Compiled
from sterna.ir.memory import Memory
from sterna.loops.program import Function, thread_counts
from sterna.targets.description import load_target
from sterna.targets.target import Target, Threads
from support.device_memory import DeviceMemory, params_of

#: What a device needs to divide and to take square roots as IEEE 754 says.
BUILD = ["-cl-fp32-correctly-rounded-divide-sqrt"]
#: PoCL 3.1 makes vectors of work-items and then runs some stores whose conditions do not hold; not if told not to
#: optimize.
UNOPTIMIZED = "-cl-opt-disable"


def opencl_target(groups: bool = False) -> Target:
    """Any device of OpenCL 1.2 whose host has pointers of 64 bits; source only.

    Args:
        groups: tasks are run by groups of threads, as on a GPU.
    """
    target = replace(load_target("c99"), name="opencl", dialect="opencl", fma=True, barriers=False)
    local = Memory("shared", "block", bytes=32 << 10, address_space=3)
    return replace(target, threads=Threads(access_bytes=16), memories=(local,)) if groups else target


class KernelError(Exception):
    """A kernel set a status other than 0."""


class Device:
    """The first OpenCL device, which keeps what it compiles in a folder of the caller's."""

    def __init__(self, cache: Path) -> None:
        os.environ.update(POCL_CACHE_DIR=str(cache), PYOPENCL_NO_CACHE="1")
        self.cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
        platforms = self.cl.get_platforms()
        if not platforms:
            pytest.skip("needs pocl-opencl-icd: runs OpenCL C")
        self.context = self.cl.Context(platforms[0].get_devices()[:1])
        self.queue = self.cl.CommandQueue(self.context)

    def run(self, compiled: Compiled, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs for these inputs, by name."""
        functions = [k.function for k in compiled.kernels]
        program = self._built(compiled.source, functions)
        kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}
        facts: dict[str, Any] = json.loads(graph_json(compiled, {"params.bin": compiled.params}))
        memory = DeviceMemory(facts, compiled.params)
        for index in facts["inputs"]:
            memory.set(index, inputs[facts["values"][index]["name"]])
        for node in facts["nodes"]:
            function = functions[node["kernel"]]
            self._launch(kernels[function.name], function, node, memory)
        return {facts["values"][index]["name"]: memory.get(index) for index in facts["outputs"]}

    def run_function(self, function: Function, memory: dict[str, np.ndarray]) -> None:
        """Runs one kernel without open sizes.

        Args:
            memory: the flat arrays of its inputs, constants and outputs by name; outputs are written in place.
        """
        text = source(KernelSet("kernel", [function], [()]), opencl_target())
        (kernel,) = self._built(text, [function]).all_kernels()
        inputs, outputs = (sorted(b, key=lambda each: each.slot) for b in (function.inputs, function.outputs))
        tasks = int(function.n_tasks)
        buffers = [self._buffer(memory[b.name]) for b in (*inputs, *outputs)]
        state = self._buffer(np.zeros(1, np.int32))
        scratch = self._buffer(np.zeros(max(1, function.scratch_bytes * tasks), np.uint8))
        rest = (
            self._buffer(params_of(function, memory)),
            self._buffer(np.zeros(1, np.int64)),
            scratch,
            state,
            np.uint32(tasks),
        )
        kernel(self.queue, *_sizes(function, tasks), *_placed(buffers), *_placed(rest[:1]), *rest[1:])
        for b, buffer in zip(outputs, buffers[len(inputs) :], strict=True):
            self.cl.enqueue_copy(self.queue, memory[b.name], buffer)

    def _built(self, text: str, functions: Sequence[Function]) -> Any:
        options = [*BUILD, UNOPTIMIZED] if any(f.has_threads for f in functions) else BUILD
        return self.cl.Program(self.context, text).build(options=options)

    def _launch(self, kernel: Any, function: Function, node: dict[str, Any], memory: DeviceMemory) -> None:
        scratch, tasks, values = function.scratch_bytes, node["tasks"], [*node["in"], *node["out"]]
        assert kernel.num_args == 2 * len(values) + 6, kernel.function_name
        # Several values may lie in one buffer.
        hosts = {memory.place(index): memory.buffer(index) for index in values}
        devices = {place: self._buffer(data) for place, data in hosts.items()}
        params = memory.params[node["params_at"] : node["params_at"] + node["params_bytes"]]
        dims, space, status = np.zeros(1, np.int64), np.zeros(max(1, scratch * tasks), np.uint8), np.zeros(1, np.int32)
        state = self._buffer(status)
        rest = (self._buffer(params), self._buffer(dims), self._buffer(space), state, np.uint32(tasks))
        given = [devices[memory.place(index)] for index in values]
        kernel(self.queue, *_sizes(function, tasks), *_placed(given), *_placed(rest[:1]), *rest[1:])
        self.cl.enqueue_copy(self.queue, status, state)
        if status[0] != 0:
            raise KernelError(f"{kernel.function_name}: status {status[0]}")
        for place in {memory.place(index) for index in node["out"]}:
            if hosts[place].size:
                self.cl.enqueue_copy(self.queue, hosts[place], devices[place])

    def _buffer(self, data: np.ndarray) -> Any:
        whole = np.ascontiguousarray(data) if data.size else np.zeros(1, np.uint8)
        flags = self.cl.mem_flags
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=whole)


def _placed(buffers: Sequence[Any]) -> list[Any]:
    """Arguments of buffers, each with the first byte there."""
    return [argument for buffer in buffers for argument in (buffer, np.uint64(0))]


def _sizes(function: Function, tasks: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Work-items in all, and of a work-group: one for each task, or, if several threads run it, a group."""
    if not function.has_threads:
        return (tasks,), None
    x, y, z = thread_counts(function.body).values()
    return (tasks * x, y, z), (x, y, z)
