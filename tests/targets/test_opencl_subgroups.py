"""One bundle for OpenCL on devices with and without subgroups. PoCL 3.1 has none: a library before it adds them,
through memory, and places work-items in reverse (`support/opencl_subgroups.c`)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from support.compiling import check
from support.control_flow import numbers
from support.device_bundles import opencl
from support.exchanging_rows import rows
from support.tools import ROOT, need, run

pytestmark = [
    pytest.mark.family("opencl"),
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="needs x86-64: the library before the driver is for it",
    ),
]
LOADED = """
import sys, numpy, sterna_runtime
with sterna_runtime.load(sys.argv[1]) as bundle, numpy.load(sys.argv[2]) as given:
    for _ in range(2):
        found = bundle.run({name: given[name] for name in given.files})
    numpy.savez(sys.argv[3], **found)
"""


class Driver:
    """A driver with subgroups of any width, in a process of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        libraries = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        self.real = next(line.split()[-1] for line in libraries.splitlines() if "libOpenCL.so.1 " in line)
        sources = [ROOT / "tests" / "support" / f"opencl_{name}.c" for name in ("counter", "subgroups")]
        flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'runtime_c' / 'devices'}")
        flags += ("-Wl,-soname,libOpenCL.so.1", "-o", str(place / "libOpenCL.so.1"), "-ldl")
        run(need("gcc", "builds a library before the driver"), *sources, *flags)

    def run(self, bundle: Path, given: dict[str, np.ndarray], width: int) -> tuple[dict[str, np.ndarray], list[str]]:
        """Outputs of a bundle's second run, and the kernels that were launched."""
        launched, inputs, found = (self.place / f"{width}.{name}" for name in ("launched", "in.npz", "out.npz"))
        np.savez(inputs, **given)
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.place),
            "COUNTED_OPENCL": self.real,
            "POCL_CACHE_DIR": str(self.place),
            "PYTHONPATH": str(ROOT / "compiler"),
            "SUBGROUP": str(width),
            "LAUNCHED": str(launched),
            "XDG_CACHE_HOME": str(self.place / f"cache{width}"),
        }
        words = [sys.executable, "-c", LOADED, *map(str, (bundle, inputs, found))]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        with np.load(found) as arrays:
            return {name: arrays[name] for name in arrays.files}, launched.read_text().split()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    place = tmp_path_factory.mktemp("subgroups")
    with opencl(place):
        pass  # there is a device
    return Driver(place)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("rows") / "bundle", rows(), "opencl")


@pytest.mark.parametrize(("width", "taken"), [(4, 0), (8, 8), (24, 8), (64, 32)])
def test_kernels_exchange_where_subgroups_are_wide_enough(width: int, taken: int, driver: Driver, bundle: Path) -> None:
    """Those with the widest subgroups of which the device's are whole multiples; elsewhere the others."""
    graph = json.loads((bundle / "graph.json").read_text())
    assert graph["devices"][0]["needs"] == []
    expected, widths = [], set()
    for kernel in graph["kernels"]:
        by_width = {each["subgroup"]: each["name"] for each in kernel.get("exchanging", ())}
        widths |= {*by_width}
        # One of the widths alone may be worth it.
        expected.append(by_width.get(taken, kernel["name"]))
    assert widths == {8, 32}
    assert sum("exchanging" in kernel for kernel in graph["kernels"]) >= 3
    x = {"x": numbers(40, 300)}
    found, launched = driver.run(bundle, x, width)
    assert sorted(launched) == sorted(2 * expected)
    check(found, sterna.compile(rows()).run(x), 1e-5)


def test_open_sizes_have_tasks_of_their_own(driver: Driver, tmp_path: Path) -> None:
    """The tasks of a node follow from the size, and from which kernel runs."""
    network = rows(count=200)
    for value in (*network.graph.input, *network.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "count"
    made = compile_to(tmp_path / "open", network, "opencl", dims={"count": (1, 200)})
    graph = json.loads((made / "graph.json").read_text())
    apart = [n for n in graph["nodes"] if "exchanging_tasks" in n and n["tasks"] != n["exchanging_tasks"][0]]
    assert apart
    for count in (200, 7):
        x = {"x": numbers(count, 300)}
        found, launched = driver.run(made, x, 32)
        assert any(name.endswith("_subgroup32") for name in launched)
        check(found, sterna.compile(network, dims={"count": (1, 200)}).run(x), 1e-5)
