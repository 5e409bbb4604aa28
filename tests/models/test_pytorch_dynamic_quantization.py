"""Quantization of activations as a model runs (torchao), against NumPy."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.exported_programs import Program, Type, saved

RNG = np.random.default_rng(3)


def chosen(x: np.ndarray, mapping: str, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Scales and zero points of the blocks along the last dimension, as torchao's source defines them."""
    least, most = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
    if mapping == "SYMMETRIC":
        scale = np.maximum(-least, most) / np.float32((high - low) / 2)
    elif mapping == "SYMMETRIC_NO_CLIPPING_ERR":
        scale = np.maximum(least / np.float32(low), most / np.float32(high))
    else:
        scale = (most - least) / np.float32(high - low)
    scale = np.maximum(scale, np.float32(1e-5))
    if mapping != "ASYMMETRIC":
        return scale, np.full(scale.shape, (high + low + 1) // 2)
    return scale, np.clip(low - np.round(least / scale), low, high)


@pytest.mark.parametrize("mapping", ["SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("block", [6, 3])
def test_scales_of_blocks(mapping: str, keep: bool, block: int, tmp_path: Path) -> None:
    """A row is one block or two; the number of rows is open. Of the last row all numbers have one sign."""
    x = RNG.normal(size=(4, 6)).astype(np.float32)
    x[-1] = np.abs(x[-1]) * 1e-8
    program = Program()
    given = program.input("x", (program.open("s0", 1, 8), 6))
    settings = {"block_size": [1, block], "quant_min": -128, "quant_max": 127}
    scale, zero = program.parts(
        "torchao.choose_qparams_affine.default", ["scale", "zero"], input=given, mapping_type=mapping, eps=1e-5,
        target_dtype=Type("int8"), scale_dtype=Type("float32"), zero_point_dtype=Type("int8"), keepdim=keep, **settings,
    )  # fmt: skip
    program.output(scale)
    program.output(zero)
    program.output(
        program.call(
            "torchao.quantize_affine.default", "q", input=given, scale=scale, zero_point=zero,
            output_dtype=Type("int8"), **settings,
        )
    )  # fmt: skip
    file = program.write(tmp_path / "model.pt2")
    assert str(read_model(file).outputs[2].type) == "int8[s0, 6]"
    found = interpret(read_model(file, ReadOptions(dims={"s0": 4})), {"x": x})
    wide = x.reshape(4, 6 // block, block)
    scales, zeros = chosen(wide, mapping, -128, 127)
    shape = (4,) if block == 6 and not keep else (4, 6 // block)
    np.testing.assert_allclose(found["scale"], scales.reshape(shape), rtol=1e-6)
    np.testing.assert_array_equal(found["zero"], zeros.reshape(shape))
    assert found["zero"].dtype == np.int8
    whole = np.round(wide * (np.float32(1) / scales)[..., None]) + zeros[..., None]
    # A number halfway between two may be rounded to either: the scales differ by their last bits.
    assert np.abs(found["q"].astype(int) - np.clip(whole, -128, 127).reshape(4, 6)).max() <= 1


def test_tensors_of_classes_of_their_own(tmp_path: Path) -> None:
    """They are refused with what gives plain ones."""
    program = Program()
    weight = program.weight("w", RNG.normal(size=(2, 3)).astype(np.float32))
    program.output(program.call("aten.matmul.default", "y", self=program.input("x", (1, 2)), other=weight))
    file = tmp_path / "model.pt2"
    file.write_bytes(program.old_content())
    with ZipFile(file) as given:
        parts = {name: given.read(name) for name in given.namelist()}
    call = b"ctorch._tensor\n_rebuild_from_type_v2\n)R"
    with ZipFile(file, "w") as changed:
        for name, held in parts.items():
            changed.writestr(name, saved(program.weights, call) if name == "serialized_state_dict.pt" else held)
    with pytest.raises(SternaError, match=r"run_decompositions\(\), whose weights are plain tensors") as caught:
        read_model(file)
    assert caught.value.codes == ("E0111",)
