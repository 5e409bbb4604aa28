"""Sums of many terms lose no more than a few roundings, whatever the layout."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import sterna


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 80, 80, 32), (1, 2)),
        ((1, 96, 100, 5), (1, 2)),
        ((4096, 24), (0,)),
        ((3, 16, 6400), (2,)),
        ((8, 2531), (0, 1)),
    ],
)
def test_means(shape: tuple[int, ...], axes: tuple[int, ...], generator: str, target: str) -> None:
    given, kept = ",".join(map(str, shape)), ",".join("1" if n in axes else str(s) for n, s in enumerate(shape))
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[{given}] x) => (float[{kept}] y, float[{kept}] z) '
        f"{{ y = ReduceMean <axes = [{','.join(map(str, axes))}]> (x) "
        f"   d = Sub(x, y)  s = Mul(d, d)  z = ReduceMean <axes = [{','.join(map(str, axes))}]> (s) }}"
    )
    x = np.random.default_rng(3).uniform(0.5, 1.5, shape).astype(np.float32)
    exact = x.astype(np.float64)
    with sterna.compile(model, target=target, generator=generator) as bundle:
        found = bundle.run({"x": x})
    np.testing.assert_allclose(found["y"], exact.mean(axes, keepdims=True), rtol=6e-7)
    np.testing.assert_allclose(found["z"], exact.var(axes, keepdims=True), rtol=1e-5)
