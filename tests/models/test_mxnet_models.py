"""MXNet models: a symbol and its weights, compiled, give what MXNet 1.9.1 gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.errors import SternaError
from sterna.frontends.formats import format_of, read_model
from sterna.frontends.frontend import ReadOptions
from support import trained as models
from support.mxnet_symbols import parameters

FOLDER = models.ROOT.parent / "shared" / "models_frontends"
NAMES = ("mxnet_digits_lstm", "mxnet_digits_resnet", "mxnet_mtcnn_pnet", "mxnet_mtcnn_rnet")
CASES = [pytest.param(name, "llvm", marks=pytest.mark.family("host-llvm")) for name in NAMES]
CASES.append(pytest.param("mxnet_digits_resnet", "c", marks=pytest.mark.family("host-c")))


@pytest.mark.parametrize(("name", "generator"), CASES)
def test_trained_model(name: str, generator: str) -> None:
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"the development model {name} is not here")
    meta, arrays = json.loads((folder / "meta.json").read_text()), np.load(folder / "ref.npz")
    for case in range(meta["n_cases"]):
        x = arrays[f"c{case}_in0"]
        file = folder / "model-symbol.json"
        with sterna.compile(file, shapes={"data": x.shape}, generator=generator) as bundle:
            found = bundle.run({"data": x})
        assert list(found) == meta["runtime_output_order"]
        for n, got in enumerate(found.values()):
            wanted = arrays[f"c{case}_out{n}"]
            assert got.shape == wanted.shape
            spread = max(value for value in meta["spread"].values() if isinstance(value, float))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=max(1e-4 * np.abs(wanted).max(), 4 * spread))


def _dense(folder: Path, op: str = "FullyConnected") -> tuple[Path, np.ndarray]:
    """A layer on an input whose shape nothing says but the weights."""
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    nodes = [{"op": "null", "name": name, "inputs": []} for name in ("data", "fc_weight", "label")]
    nodes += [
        {"op": op, "name": "fc", "inputs": [[0, 0], [1, 0]], "attr": {"num_hidden": "3", "no_bias": "True"}},
        {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[3, 0], [2, 0]]},
    ]
    file = folder / "net-symbol.json"
    file.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[4, 0]]}))
    (folder / "net-0003.params").write_bytes(parameters({"arg:fc_weight": weight}))
    return file, weight


def test_labels_are_left_out_and_the_batch_may_stay_open(tmp_path: Path) -> None:
    file, weight = _dense(tmp_path)
    assert format_of(file) == format_of(tmp_path / "net-0003.params") == "mxnet"
    graph = read_model(file, ReadOptions(dims={"batch": (1, 8)}))
    assert [value.name for value in graph.inputs] == ["data"]
    assert graph.output_names == ("softmax_output",)
    x = np.eye(4, dtype=np.float32)[:2] / 8
    with sterna.compile(file, dims={"batch": (1, 8)}, generator="llvm") as bundle:
        (found,) = bundle.run({"data": x}).values()
    wanted = np.exp(x @ weight.T)
    np.testing.assert_allclose(found, wanted / wanted.sum(1, keepdims=True), rtol=1e-5)


def test_what_is_missing_is_said_at_once(tmp_path: Path) -> None:
    file, _ = _dense(tmp_path, "Sparkle")
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert set(caught.value.codes) == {"E0104", "E0105"}
    assert 'sterna.frontends.register("mxnet", "Sparkle"' in str(caught.value)
    file, _ = _dense(tmp_path)
    (tmp_path / "net-0003.params").unlink()
    with pytest.raises(SternaError, match=r"net-0000\.params") as caught:
        read_model(file)
    assert "E0110" in caught.value.codes


def _chain(folder: Path, *nodes: dict[str, object]) -> Path:
    """Nodes after an input of (2, 1, 3, 4), node 0; the last one is the output."""
    file = folder / "net-symbol.json"
    rows = [{"op": "null", "name": "data", "inputs": [], "attrs": {"__shape__": "(2, 1, 3, 4)"}}, *nodes]
    file.write_text(json.dumps({"nodes": rows, "arg_nodes": [0], "heads": [[len(nodes), 0]]}))
    (folder / "net-0000.params").write_bytes(parameters({}))
    return file


@pytest.mark.parametrize("given", [{"axes": "(9, 9)"}, {}])
def test_the_result_of_a_huge_number_is_refused(given: dict[str, str], tmp_path: Path) -> None:
    """Of a node that fails, and of one that has a single result."""
    first = {"op": "transpose", "name": "t", "attrs": given, "inputs": [[0, 0]]}
    with pytest.raises(SternaError) as caught:
        read_model(_chain(tmp_path, first, {"op": "relu", "name": "r", "inputs": [[1, 1 << 40]]}))
    assert ("has no result 1099511627776" in str(caught.value)) is not bool(given)
    assert "E0901" not in caught.value.codes


@pytest.mark.parametrize(
    ("op", "settings"),
    [
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": "(2000000000, 3)"}),
        ("Pooling", {"kernel": "(2, 2)", "pad": "(1000000, 1000000)", "pool_type": "avg",
                     "count_include_pad": "False"}),
        ("_split_v2", {"axis": "0", "sections": "2000000000"}),
    ],
)  # fmt: skip
def test_counts_that_no_model_has_are_refused(op: str, settings: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SternaError) as caught:
        read_model(_chain(tmp_path, {"op": op, "name": "y", "attrs": settings, "inputs": [[0, 0]]}))
    assert not {"E0117", "E0901"} & set(caught.value.codes)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    file, _ = _dense(tmp_path)
    random = np.random.default_rng(0)
    for path in (file, tmp_path / "net-0003.params"):
        whole = path.read_bytes()
        for _ in range(150):
            content = bytearray(whole[: random.integers(1, len(whole) + 1)])
            for place in random.integers(0, len(content), 3):
                content[place] = random.integers(0, 256)
            path.write_bytes(content)
            codes: tuple[str, ...] = ()
            try:
                read_model(path, ReadOptions(shapes={"data": (1, 4)}))
            except SternaError as mistake:
                codes = mistake.codes
            assert "E0901" not in codes
        path.write_bytes(whole)
