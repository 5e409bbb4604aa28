"""Sparse weights of TensorFlow Lite are dense when they are read, as DENSIFY of the reference kernels makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends import tflite
from support.tflite_builder import ModelWriter, reference, schema


def dense(size: int) -> Any:
    level = schema.DimensionMetadataT()
    level.format, level.denseSize = schema.DimensionType.DENSE, size
    return level


def compressed(segments: list[int], indices: list[int]) -> Any:
    level = schema.DimensionMetadataT()
    level.format = schema.DimensionType.SPARSE_CSR
    level.arraySegmentsType = level.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    level.arraySegments, level.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
    level.arraySegments.values, level.arrayIndices.values = segments, indices
    return level


def weights(kind: str, dtype: type) -> tuple[np.ndarray, np.ndarray, Any]:
    """A sparse matrix of 6 x 8: dense, as its values, and how they are stored."""
    random = np.random.default_rng(4)
    full = random.integers(1, 9, (6, 8)).astype(dtype)
    sparsity = schema.SparsityParametersT()
    if kind == "rows":
        full[random.random(full.shape) < 0.6] = 0
        rows = [np.flatnonzero(row).tolist() for row in full]
        segments = np.cumsum([0, *map(len, rows)]).tolist()
        sparsity.traversalOrder, sparsity.blockMap = [0, 1], []
        sparsity.dimMetadata = [dense(6), compressed(segments, [n for row in rows for n in row])]
        return full, full[full != 0], sparsity
    # Blocks of 1 x 4: of each row the first, the second, or both.
    kept = [[0], [1], [0, 1], [], [1], [0]]
    for row, blocks in enumerate(kept):
        for block in {0, 1} - set(blocks):
            full[row, 4 * block : 4 * block + 4] = 0
    segments = np.cumsum([0, *map(len, kept)]).tolist()
    sparsity.traversalOrder, sparsity.blockMap = [0, 1, 2], [1]
    sparsity.dimMetadata = [dense(6), compressed(segments, [n for row in kept for n in row]), dense(4)]
    values = [full[row, 4 * block : 4 * block + 4] for row, blocks in enumerate(kept) for block in blocks]
    return full, np.concatenate(values), sparsity


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("kind", ["rows", "blocks"])
def test_densify(kind: str, dtype: type, tmp_path: Path) -> None:
    full, values, sparsity = weights(kind, dtype)
    model = ModelWriter()
    x = model.main.input(np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32))
    sparse = model.main.tensor(np.dtype(dtype).name, full.shape, None, values)
    model.main.tensors[sparse].sparsity = sparsity
    matrix = model.main.tensor(np.dtype(dtype).name, full.shape)
    model.main.op("DENSIFY", [sparse], [matrix])
    if dtype == np.int8:
        model.main.outputs.append(matrix)
    else:
        y = model.main.output("float32", (3, 6))
        model.main.op("FULLY_CONNECTED", [x, matrix], [y], "FullyConnectedOptions")
    path = tmp_path / "model.tflite"
    path.write_bytes(model.content())
    (found,) = interpret(tflite.read(path), model.feeds).values()
    np.testing.assert_allclose(found, reference(model.content(), [model.feeds])[0][0], rtol=1e-6)
    if dtype == np.int8:
        np.testing.assert_array_equal(found, full)


def test_levels_that_contradict_each_other(tmp_path: Path) -> None:
    for spoil in ("segments", "indices", "order"):
        full, values, sparsity = weights("rows", np.float32)
        if spoil == "segments":
            sparsity.dimMetadata[1].arraySegments.values[-1] += 5
        elif spoil == "indices":
            sparsity.dimMetadata[1].arrayIndices.values[0] = 99
        else:
            sparsity.traversalOrder = [0, 0]
        model = ModelWriter()
        sparse = model.main.tensor("float32", full.shape, None, values)
        model.main.tensors[sparse].sparsity = sparsity
        matrix = model.main.output("float32", full.shape)
        model.main.op("DENSIFY", [sparse], [matrix])
        path = tmp_path / "model.tflite"
        path.write_bytes(model.content())
        with pytest.raises(SternaError, match="malformed") as caught:
            tflite.read(path)
        assert caught.value.codes == ("E0103",)
