"""ONNX files whose weights stay in the file: what is read is what the whole message holds."""

from __future__ import annotations

import random
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sterna.errors import SternaError
from sterna.frontends.onnx import file, slim


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slim, "LARGE", 100)
    monkeypatch.setattr(file, "LARGE_FILE", 0)


def model(*tensors: onnx.TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    return helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:], list(tensors)))


def tensor(dtype: Any, *shape: int, name: str = "w") -> onnx.TensorProto:
    return numpy_helper.from_array(np.random.default_rng(len(shape)).integers(0, 99, shape).astype(dtype), name)


def slimmed(content: bytes, path: Path) -> bytes | None:
    path.write_bytes(content)
    with path.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as mapped:
        return slim.slim(mapped, path.name, file.ELEMENT_TYPES)


def arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    proto, folder = file.load(path)
    return {t.name: file.to_array(t, folder, t.name) for t in proto.graph.initializer}


def test_weights_are_the_same_and_are_not_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    tensors = [tensor(np.float32, 8, 9), tensor(np.int8, 7, 11, 3, name="v"), tensor(np.int64, 3, name="few")]
    whole = model(*tensors)
    onnx.save(whole, path)
    message = slimmed(path.read_bytes(), path)
    assert message is not None
    assert len(message) < 500 < path.stat().st_size
    small = onnx.load_from_string(message)
    places = [t.data_location == TensorProto.EXTERNAL for t in small.graph.initializer]
    assert places == [True, True, False]
    found = arrays(path)
    for t in tensors:
        assert np.array_equal(found[t.name], numpy_helper.to_array(t))
    for part in (small, whole):
        del part.graph.initializer[:]
    assert small == whole, "all else is as it was"


def test_odd_tensors_stay_in_the_message(tmp_path: Path) -> None:
    wrong_size = tensor(np.float32, 8, 9, name="wrong")
    wrong_size.dims[0] = 7
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [60], np.arange(60, dtype=np.float32))
    nameless = tensor(np.float32, 50, name="kind")
    nameless.data_type = 77
    path = tmp_path / "m.onnx"
    message = slimmed(model(wrong_size, typed, nameless).SerializeToString(), path)
    assert message is not None
    assert onnx.load_from_string(message) == model(wrong_size, typed, nameless)
    proto, folder = file.load(path)
    with pytest.raises(SternaError, match=r"\[7, 9\] needs 252 bytes and has 288") as caught:
        file.to_array(proto.graph.initializer[0], folder, "w")
    assert caught.value.codes == ("E0103",)


def test_a_model_behind_a_link_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    onnx.save(model(tensor(np.float32, 8, 9)), tmp_path / "far" / "m.onnx")
    (tmp_path / "m.onnx").symlink_to(tmp_path / "far" / "m.onnx")
    assert np.array_equal(arrays(tmp_path / "m.onnx")["w"], numpy_helper.to_array(tensor(np.float32, 8, 9)))


@pytest.mark.parametrize("seed", range(10))
def test_damaged_files_are_read_as_they_would_be_whole(seed: int, tmp_path: Path) -> None:
    """Bytes changed, cut out and put in: nothing crashes, and what can be parsed says the same either way."""
    pick = random.Random(seed)
    good = model(tensor(np.float32, 8, 9), tensor(np.uint8, 200, name="v")).SerializeToString()
    agreed = 0
    for n in range(60):
        content = bytearray(good)
        # Where names, sizes and types stand, and not the weights.
        at = pick.choice([pick.randrange(60), pick.randrange(len(good) - 60, len(good)), pick.randrange(len(good))])
        how = pick.randrange(3)
        content[at : at + (how > 0)] = bytes([pick.randrange(256)]) * (how != 2)
        message = slimmed(bytes(content), tmp_path / f"m{n}.onnx")
        try:
            whole = onnx.ModelProto.FromString(bytes(content))
        except Exception:
            continue
        if message is None:
            continue
        small = onnx.ModelProto.FromString(message)
        assert len(small.graph.initializer) == len(whole.graph.initializer)
        for a, b in zip(small.graph.initializer, whole.graph.initializer, strict=True):
            if a.data_location == TensorProto.EXTERNAL and b.data_location != TensorProto.EXTERNAL:
                assert np.array_equal(file.to_array(a, tmp_path, "w"), file.to_array(b, None, "w"), equal_nan=True)
            else:
                assert a == b
        agreed += 1
    assert agreed > 5
