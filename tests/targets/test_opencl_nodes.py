"""Random nodes on a device of OpenCL, against the CPU's kernels: any element types, sizes from 0 on, odd ones.

STERNA_OPENCL=all runs every operator that is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sterna
from sterna.errors import SternaError
from support import device_bundles
from support.nodes import STRATEGIES, NodeCase
from support.nodes.reference import agree

pytestmark = pytest.mark.family("opencl")
EVERY = 1 if os.environ.get("STERNA_OPENCL") == "all" else 12
SETTINGS = settings(
    max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module", autouse=True)
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")):
        yield


def on_device(case: NodeCase) -> sterna.Bundle:
    """The node with every kernel that the device can do there."""
    with suppress(SternaError):  # there may be no kernel to place
        return sterna.compile(case.model(), "opencl", device_for={"*": "opencl"}, generator="llvm")
    return sterna.compile(case.model(), "opencl", generator="llvm")


@pytest.mark.parametrize("op", sorted(STRATEGIES)[::EVERY])
def test_random_nodes(op: str) -> None:
    @SETTINGS
    @given(st.data())
    def run(data: Any) -> None:
        case = STRATEGIES[op](data.draw)
        with sterna.compile(case.model(), generator="llvm") as here, on_device(case) as there:
            agree(case, list(there.run(case.feeds).values()), list(here.run(case.feeds).values()))

    run()
