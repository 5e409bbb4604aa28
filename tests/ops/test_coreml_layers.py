"""Operations of ML programs, built with coremltools, against NumPy written from their definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna

ct = pytest.importorskip("coremltools", reason="Core ML models are built with coremltools")
from coremltools.converters.mil import Builder as mb  # noqa: E402, N813

I = np.array([2, 0, 1], np.int32)  # noqa: E741
R = np.random.default_rng(0).normal(size=(15, 8)).astype(np.float32)


def gru(x: Any, h: Any) -> Any:
    def logistic(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    steps = []
    for row in x:
        (a, b, c), (p, q, s) = np.split(row @ R[:, :3].T, 3, 1), np.split(R[:, 3:], 3)
        r, z = logistic(a + h @ p.T), logistic(c + h @ s.T)
        h = (1 - z) * np.tanh(b + r * (h @ q.T)) + z * h
        steps.append(h)
    return np.stack(steps)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "gather": (lambda x: mb.gather(x=x, indices=I, axis=1), lambda x: x[:, I], ((2, 4, 3),)),
    "slice_by_index": (
        lambda x: mb.slice_by_index(
            x=x, begin=[1, 0, 3], end=[2, 4, 0], stride=[1, 2, -1], squeeze_mask=[True, False, False]
        ),
        lambda x: x[1, 0:4:2, 3:0:-1],
        ((2, 4, 5),),
    ),
    "concat": (
        lambda x, y: mb.concat(values=[x, y], axis=1, interleave=True),
        lambda x, y: np.stack([x, y], 2).reshape(2, 6),
        ((2, 3), (2, 3)),
    ),
    "pad": (
        lambda x: mb.pad(x=x, pad=[1, 2, 0, 1], mode="constant", constant_val=2.0),
        lambda x: np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=2),
        ((2, 3, 4),),
    ),
    "gru": (
        lambda x, h: mb.gru(x=x, initial_h=h, weight_ih=R[:, :3], weight_hh=R[:, 3:], output_sequence=True)[0],
        gru,
        ((4, 2, 3), (2, 5)),
    ),
    "mod": (lambda x: mb.mod(x=x, y=np.float32(0.3)), lambda x: np.mod(x, np.float32(0.3)), ((9,),)),
}


@pytest.mark.parametrize("name", CASES)
def test_operation(name: str, tmp_path: Path) -> None:
    build, expected, shapes = CASES[name]
    random = np.random.default_rng(1)
    given = [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    specs = [mb.TensorSpec(shape=shape) for shape in shapes]
    function = (lambda x0: build(x0)) if len(shapes) == 1 else (lambda x0, x1: build(x0, x1))  # noqa: PLW0108 (names)
    program = mb.program(input_specs=specs, opset_version=ct.target.iOS17)(function)
    model = ct.convert(
        program, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32, skip_model_load=True,
        minimum_deployment_target=ct.target.iOS17, pass_pipeline=ct.PassPipeline.EMPTY,
    )  # fmt: skip
    model.save(tmp_path / "model.mlpackage")
    with sterna.compile(tmp_path / "model.mlpackage", generator="llvm") as bundle:
        (got,) = bundle.run({f"x{n}": x for n, x in enumerate(given)}).values()
    np.testing.assert_allclose(got, expected(*given), rtol=1e-5, atol=1e-5)
