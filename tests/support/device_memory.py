"""The memory that graph.json plans, as hosts of devices in tests use it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.loops.program import Function


def params_of(function: Function, memory: dict[str, np.ndarray]) -> np.ndarray:
    """The constants of a kernel as they lie behind its pointer, from arrays by name."""
    params = np.zeros(max([1, *(b.end for b in function.params)]), np.uint8)
    for b in function.params:
        params[b.slot : b.end] = np.ascontiguousarray(memory[b.name]).view(np.uint8)
    return params


class DeviceMemory:
    """The memory that graph.json plans: buffers as bytes, tensors as arrays within them."""

    def __init__(self, facts: dict[str, Any], params: bytes):
        self.values = facts["values"]
        self.arena = np.zeros(facts["arena"]["bytes"], np.uint8)
        self.params = np.frombuffer(params, np.uint8)
        self.own = {n: np.zeros(v["storage"]["bytes"], np.uint8) for n, v in enumerate(self.values) if self._outside(v)}

    def _outside(self, value: dict[str, Any]) -> bool:
        return value["storage"]["class"] in ("input", "output")

    def buffer(self, index: int) -> np.ndarray:
        """The bytes of the buffer that a value lies in, to be written in place."""
        storage = self.values[index]["storage"]
        if index in self.own:
            return self.own[index]
        return self.arena[storage["offset"] : storage["offset"] + storage["bytes"]]

    def place(self, index: int) -> tuple[str, int]:
        """Where the buffer lies: the same for values that share it."""
        storage = self.values[index]["storage"]
        return (storage["class"], index if index in self.own else storage["offset"])

    def set(self, index: int, array: np.ndarray) -> None:
        self.own[index][:] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)

    def get(self, index: int) -> np.ndarray:
        value = self.values[index]
        return self.own[index].view(dtypes.to_numpy(value["dtype"])).reshape(value["dims"]).copy()
