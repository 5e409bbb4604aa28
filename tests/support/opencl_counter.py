"""Runs a bundle for OpenCL with every call of libOpenCL counted, and prints what it saw as JSON: a process of its own.

python opencl_counter.py BUNDLE COUNTER INPUTS.npz
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import sterna_runtime
from sterna_runtime import SternaError

COUNTED = ("SetKernelArg", "EnqueueNDRangeKernel", "EnqueueWriteBuffer", "EnqueueReadBuffer", "Flush", "Finish")
OUT_OF_RESOURCES = -5


def main() -> None:
    bundle, library, inputs = sys.argv[1:]
    counter = ctypes.CDLL(library)
    counter.counted.restype, counter.counted.argtypes = ctypes.c_uint64, (ctypes.c_char_p,)
    counter.returns.argtypes = (ctypes.c_char_p, ctypes.c_int32)
    counter.returns.restype = None

    def calls(work: Callable[[], object]) -> dict[str, int]:
        for name in COUNTED:
            counter.counted(f"cl{name}".encode())
        work()
        return {name: counter.counted(f"cl{name}".encode()) for name in COUNTED}

    with np.load(inputs) as given:
        feed = {name: given[name] for name in given.files}
    seen: dict[str, Any] = {}
    with sterna_runtime.load(bundle) as first:
        wanted = next(iter(first.run(feed).values())).copy()
        seen["second"] = calls(lambda: first.run(feed))
        seen["contexts"] = counter.counted(b"clCreateContext")
        with sterna_runtime.load(bundle) as other:
            other.run(feed)
            seen["further contexts"] = counter.counted(b"clCreateContext")
        seen["same"] = bool(np.array_equal(next(iter(first.run(feed).values())), wanted))
        counter.returns(b"clEnqueueNDRangeKernel", OUT_OF_RESOURCES)
        for _ in range(2):
            try:
                first.run(feed)
            except SternaError as problem:
                seen["lost"] = str(problem)
        counter.returns(b"clEnqueueNDRangeKernel", 0)
    with sterna_runtime.load(bundle) as again:
        seen["after"] = bool(np.array_equal(next(iter(again.run(feed).values())), wanted))
    seen["new contexts"] = counter.counted(b"clCreateContext")
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
