"""The kernels that explorers are compared on, and the devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from sterna.driver import reading
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.ir.graph import Graph
from sterna.options import Options
from sterna.targets.description import load_target
from sterna.tuning.kernels import Task, tasks_of
from support.counted_kernels import network

#: By what they are called in tables. Small: a trial is a compilation anyway.
KERNELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "3x3 convolution": lambda: network("Conv", [1, 32, 14, 14], [32, 32, 3, 3], pads=[1, 1, 1, 1]),
    "pointwise": lambda: network("Conv", [1, 96, 14, 14], [64, 96, 1, 1]),
    "depthwise": lambda: network("Conv", [1, 64, 28, 28], [64, 1, 3, 3], pads=[1, 1, 1, 1], group=64),
    "dense of one row": lambda: network("MatMul", [1, 512], [512, 256]),
    "softmax": lambda: network("Softmax", [64, 128], axis=1),
    "LSTM step": lambda: network("LSTM", [1, 1, 128], [1, 512, 128], [1, 512, 128], hidden_size=128),
}


@dataclass(frozen=True)
class Device:
    """Args:
    target: of descriptions; on: as --on has it, "" for this machine, "counted" for instructions under qemu-user.
    """

    title: str
    target: str
    on: str

    @property
    def counts(self) -> bool:
        """Whether it counts instructions, which come out the same each time."""
        return self.on == "counted"


DEVICES = (
    Device("x86-64-v2", "x86-64-v2", ""),
    Device("x86-64-v4", "x86-64-v4", ""),
    Device("WebAssembly in Node", "browser", "node"),
    Device("arm64, instructions", "arm64", "counted"),
)


def options_of(device: Device) -> Options:
    """By LLVM, in this process."""
    return Options(load_target(device.target), "llvm")


def graph_of(name: str, options: Options) -> Graph:
    """The model that a kernel is alone in, but for what stands before and behind it."""
    return read_model(Source.of(KERNELS[name]()), reading(options))


def kernel_of(name: str, device: Device) -> Task:
    """The kernel itself: in which most is multiplied, and of those the one of most stages, which an LSTM's step is."""
    options = options_of(device)
    tasks, _ = tasks_of(graph_of(name, options), options)
    return max(tasks, key=lambda task: (task.multiply_adds, len(task.call.kernel.stages)))  # type: ignore[union-attr]
