"""What a run asks of OpenCL's library: its calls are counted between the runtime and the driver."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.api import compile_to
from support.device_bundles import edited, opencl
from support.tools import ROOT, need, run
from support.trained import digits

pytestmark = [
    pytest.mark.family("opencl"),
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="needs x86-64: the counter is for it",
    ),
]


def in_front(place: Path, *more: str) -> dict[str, str]:
    """Builds the counter, with other files of support, and gives the environment in which it is OpenCL's library."""
    with opencl(place):
        pass  # there is a device
    libraries = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    real = next(line.split()[-1] for line in libraries.splitlines() if "libOpenCL.so.1 " in line)
    counter, support = place / "libOpenCL.so.1", ROOT / "tests" / "support"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'runtime_c' / 'devices'}")
    # By this name the runtime finds what is loaded already, in place of the library that the counter opens by its path.
    flags += ("-Wl,-soname,libOpenCL.so.1",)
    sources = [support / name for name in ("opencl_counter.c", *more)]
    run(need("gcc", "builds the counter"), *flags, *sources, "-o", counter, "-ldl")
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(place),
        "COUNTED_OPENCL": real,
        "POCL_CACHE_DIR": str(place),
        "PYTHONPATH": str(ROOT / "compiler"),
    }


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """graph.json of the bundle, and what the process saw that ran it."""
    place = tmp_path_factory.mktemp("calls")
    environment = in_front(place)
    bundle = compile_to(place / "digits", digits().file, "opencl")
    np.savez(place / "inputs.npz", **digits().cases[0].inputs)
    script = ROOT / "tests" / "support" / "opencl_counter.py"
    words = [sys.executable, str(script), str(bundle), str(place / "libOpenCL.so.1"), str(place / "inputs.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads((bundle / "graph.json").read_text()), json.loads(done.stdout)


def test_a_run_is_queued_as_a_whole(counted: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """A launch for every node, an argument where one changes, a copy for every input and output, and one wait."""
    graph, seen = counted
    launches = [node for node in graph["nodes"] if "op" not in node]
    calls = seen["second"]
    assert calls["EnqueueNDRangeKernel"] == len(launches)
    assert calls["EnqueueWriteBuffer"] == len(graph["inputs"])
    assert calls["EnqueueReadBuffer"] == len(graph["outputs"])
    assert calls["Flush"] + calls["Finish"] == 1
    uses = [node["kernel"] for node in launches]
    assert len(set(uses)) == len(uses), "each kernel of the network is launched once"
    assert calls["SetKernelArg"] == 0


def test_models_share_a_context(counted: tuple[dict[str, Any], dict[str, Any]]) -> None:
    _, seen = counted
    assert seen["contexts"] == 1
    assert seen["further contexts"] == 0
    assert seen["same"]


def test_a_lost_device(counted: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """The driver's word and what to do; models that are loaded afterwards have a new context."""
    _, seen = counted
    assert "error[E0511]" in seen["lost"]
    assert "CL_OUT_OF_RESOURCES (-5)" in seen["lost"]
    assert "unload all of its models and load them again" in seen["lost"]
    assert seen["new contexts"] == 1
    assert seen["after"]


def test_groups_that_are_too_deep(tmp_path: Path) -> None:
    """A device takes so many work-items of a group, and fewer along its last axis."""
    environment = in_front(tmp_path, "opencl_narrow.c")
    bundle = compile_to(tmp_path / "digits", digits().file, "opencl")
    edited(bundle, lambda graph: graph["kernels"][0].update(threads=[1, 1, 128]))
    words = [sys.executable, "-m", "sterna", "run", str(bundle), "--random"]
    said = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert "error[E0507]: OpenCL: kernels need 128 work-items along axis 2 of a group" in said.stderr
    assert "has 64" in said.stderr
