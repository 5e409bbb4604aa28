"""What tests of several foreign machines share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sterna.api import compile_to
from support import cuda_driver, machines
from support.tools import need
from support.trained import digits


@pytest.fixture(scope="session")
def arm64_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("qemu-aarch64", "runs programs for 64-bit ARM")
    return machines.arm_host("aarch64", tmp_path_factory.mktemp("arm64"))


@pytest.fixture(scope="session")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> cuda_driver.Driver:
    """The test driver, as this process's libcuda.so.1."""
    return cuda_driver.Driver(cuda_driver.build(tmp_path_factory.mktemp("cuda")))


@pytest.fixture
def fresh_cuda(cuda: cuda_driver.Driver) -> Iterator[None]:
    """A driver as it is at first; afterwards nothing is held, and no context is left current."""
    cuda.reset()
    yield
    gc.collect()
    cuda.reset()
    assert (cuda.held, cuda.contexts) == (0, 0)


@pytest.fixture(scope="session")
def cuda_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of `sterna demo`'s model for CUDA."""
    return compile_to(tmp_path_factory.mktemp("digits") / "digits", digits().file, "cuda")
