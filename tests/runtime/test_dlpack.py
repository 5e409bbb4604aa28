"""Arrays in and out by DLPack: the memory of others is read where it is, and they see that of outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna_runtime import load
from support import handmade_bundle

SHAPE = (handmade_bundle.ROWS, handmade_bundle.COLUMNS)
X = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


class Foreign:
    """An array that speaks DLPack alone, in the memory of any device."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return handmade_bundle.write(tmp_path / "bundle")


def test_in_and_out_without_copies(directory: Path) -> None:
    x = X.copy()
    with load(directory) as bundle:
        bundle.set_input("x", Foreign(x))
        output = bundle.get_output("y")
        seen = np.from_dlpack(Foreign(output))
        assert seen.__array_interface__["data"][0] == output.__array_interface__["data"][0]
        for _ in range(2):
            bundle.run()
            np.testing.assert_array_equal(seen, handmade_bundle.expected(x)["y"])
            x *= 2  # the model reads this memory, so the next run sees it
    np.testing.assert_array_equal(seen, handmade_bundle.expected(x / 2)["y"], "it outlives the bundle")


def test_torch(directory: Path) -> None:
    torch = pytest.importorskip("torch", reason="arrays of PyTorch are tried where PyTorch is")
    x = torch.from_numpy(X.copy())
    with load(directory) as bundle:
        made = torch.from_dlpack(bundle.run({"x": x})["y"])
        bundle.set_input("x", x)
        bundle.run()
        view = torch.from_dlpack(bundle.get_output("y"))
        assert view.data_ptr() == bundle.get_output("y").__array_interface__["data"][0]
        assert torch.equal(view, made)
        x.mul_(3)
        bundle.run()
        np.testing.assert_array_equal(view.numpy(), handmade_bundle.expected(3 * X)["y"])
        with pytest.raises(SternaError) as caught:
            bundle.run({"x": x.requires_grad_()})
        assert caught.value.codes == ("E0606",)
        assert "detach" in str(caught.value)


@pytest.mark.parametrize(
    ("device", "name"), [((2, 1), "CUDA, number 1"), ((4, 0), "OpenCL, number 0"), ((99, 3), "type 99")]
)
def test_memory_of_a_device(directory: Path, device: tuple[int, int], name: str) -> None:
    with load(directory) as bundle:
        for use in (lambda x: bundle.run({"x": x}), lambda x: bundle.set_input("x", x)):
            with pytest.raises(SternaError) as caught:
                use(Foreign(X, device))
            assert caught.value.codes == ("E0606",)
            assert name in str(caught.value)
            assert "tensor.cpu()" in str(caught.value)
        # What a device shares with the CPU is the CPU's memory.
        np.testing.assert_array_equal(bundle.run({"x": Foreign(X, (3, 0))})["y"], handmade_bundle.expected(X)["y"])
