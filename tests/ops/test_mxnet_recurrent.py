"""MXNet's LSTM with projections and with cells kept within bounds (on its GPUs alone), beside NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.mxnet_symbols import parameters

Array = np.ndarray
STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5


def graph(folder: Path, weights: Array, feeds: dict[str, Array], **said: Any) -> Any:
    names = ["x", "w", "h", "c"]
    nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in names]
    attrs = {"mode": "lstm", "state_size": HIDDEN, "state_outputs": True, **said}
    texts = {key: str(value) for key, value in attrs.items()}
    nodes.append({"op": "RNN", "name": "rnn", "attrs": texts, "inputs": [[n, 0, 0] for n in range(4)]})
    heads = [[4, n, 0] for n in range(3)]
    (folder / "model-symbol.json").write_text(json.dumps({"nodes": nodes, "heads": heads}))
    (folder / "model-0000.params").write_bytes(parameters({"arg:w": weights}))
    return read_model(folder / "model-symbol.json", ReadOptions(shapes={k: v.shape for k, v in feeds.items()}))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("layers", "both", "projection", "clip"),
    [(1, False, 2, None), (2, True, 2, None), (1, True, None, 0.3), (2, False, 4, 0.2)],
)
def test_states_are_projected_and_cells_clipped(
    tmp_path: Path, layers: int, both: bool, projection: int | None, clip: float | None
) -> None:
    rng, directions, units = np.random.default_rng(7), 2 if both else 1, projection or HIDDEN
    matrices, biases, flat = [], [], []
    for layer in range(layers):
        for _ in range(directions):
            size = WIDTH if layer == 0 else directions * units
            shapes = [(4 * HIDDEN, size), (4 * HIDDEN, units), *([(projection, HIDDEN)] if projection else [])]
            matrices.append([rng.normal(size=shape).astype(np.float32) * 0.5 for shape in shapes])
            flat += [m.reshape(-1) for m in matrices[-1]]
    for _ in matrices:
        biases.append(rng.normal(size=(2, 4 * HIDDEN)).astype(np.float32) * 0.5)
        flat.append(biases[-1].reshape(-1))
    count = layers * directions
    feeds = {
        "x": rng.normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32),
        "h": rng.normal(size=(count, BATCH, units)).astype(np.float32),
        "c": rng.normal(size=(count, BATCH, HIDDEN)).astype(np.float32),
    }
    x, last_h, last_c = feeds["x"], [], []
    for layer in range(layers):
        parts = []
        for d in range(directions):
            at = layer * directions + d
            h, c, rows = feeds["h"][at], feeds["c"][at], []
            for step in range(STEPS)[:: -1 if d else 1]:
                total = x[step] @ matrices[at][0].T + h @ matrices[at][1].T + biases[at].sum(0)
                i, f, g, o = np.split(total, 4, 1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                c = np.clip(c, -clip, clip) if clip else c
                h = sigmoid(o) * np.tanh(c)
                h = h @ matrices[at][2].T if projection else h
                rows.append(h)
            parts.append(np.stack(rows[:: -1 if d else 1]))
            last_h.append(h)
            last_c.append(c)
        x = np.concatenate(parts, 2)
    said: dict[str, Any] = {"num_layers": layers, "bidirectional": both}
    said |= {"projection_size": projection} if projection else {}
    said |= {"lstm_state_clip_min": -clip, "lstm_state_clip_max": clip} if clip else {}
    found = interpret(graph(tmp_path, np.concatenate(flat), feeds, **said), feeds).values()
    for ours, theirs in zip(found, (x, np.stack(last_h), np.stack(last_c)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_weights_of_another_size_are_refused(tmp_path: Path) -> None:
    feeds = {"x": np.zeros((STEPS, BATCH, WIDTH), np.float32), "h": np.zeros((1, BATCH, 2), np.float32)}
    feeds["c"] = np.zeros((1, BATCH, HIDDEN), np.float32)
    with pytest.raises(SternaError, match="needs 150 weights"):
        graph(tmp_path, np.zeros(149, np.float32), feeds, num_layers=1, projection_size=2)
