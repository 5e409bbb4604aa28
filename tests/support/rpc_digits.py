"""A model of digits on a server of devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna import rpc
from sterna.errors import SternaError
from support.rpc_server import Running

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"


def image() -> np.ndarray:
    return np.random.default_rng(3).random((1, 1, 8, 8), dtype=np.float32)


def code_of(problem: pytest.ExceptionInfo[SternaError]) -> str:
    [code] = problem.value.codes
    return code


def works(running: Running, bundle: Path, wait: float = 60.0) -> bool:
    """Whether the server still does all that it is for, once it is this client's turn."""
    with rpc.connect(running.address, wait=wait) as device:
        return bool(np.isfinite(device.load(bundle).run([image()])["scores"]).all())
