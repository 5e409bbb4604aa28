"""What tests of several foreign machines share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import cuda_driver, machines
from support.tools import need


@pytest.fixture(scope="session")
def arm64_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("qemu-aarch64", "runs programs for 64-bit ARM")
    return machines.arm_host("aarch64", tmp_path_factory.mktemp("arm64"))


@pytest.fixture(scope="session")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> cuda_driver.Driver:
    """The test driver, as this process's libcuda.so.1."""
    return cuda_driver.Driver(cuda_driver.build(tmp_path_factory.mktemp("cuda")))
