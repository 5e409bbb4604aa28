"""A sample of ci/all-models: every trained model and every target, by both generators, at least once.

Models and targets are dealt out in turn, so that each pair takes a few seconds at most. `STERNA_MATRIX_ROUND=N` moves
every model on by N targets; the sample is the same as long as models and targets are.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_to
from sterna.targets.description import load_target
from support import machines, matrix
from support.golden import counter
from support.handmade_bundle import graph_text
from support.matrix import (
    NEAR,
    Pair,
    Place,
    check,
    distinct_targets,
    family,
    generators,
    model_names,
    near_this_machine,
    pairs,
)
from support.trained import Case, Trained, agree, trained

ROUND = int(os.environ.get("STERNA_MATRIX_ROUND", "0"))
#: Models of more work than an emulator or plain C does in seconds: they meet native targets only.
LARGE = {
    "basic_pitch_f32", "basic_pitch_tflite_f32", "efficientnet_lite0_f32", "magika_f32", "minilm_l6_v2_int8",
    "mobilenet_v2_100_224_u8", "ppocrv6_tiny_det_f32", "ppocrv6_tiny_rec_f32", "speech_embedding_f32",
    "ssd_mobilenet_v1_coco_u8", "ultraface_rfb320_f32", "mediapipe_hand_landmark_lite_fp16",
    "mediapipe_selfie_segmentation_fp16", "speech_melspectrogram_f32", "whisper80_frontend_f32",
}  # fmt: skip


def sample(first: int) -> list[Pair]:
    """Pairs of which every model, and every target with each of its generators, has one at least."""
    targets = [(name, g) for name in distinct_targets() for g in generators(load_target(name))]
    native = [(name, g) for name, g in targets if load_target(name).llvm_triple.startswith("x86_64")]
    models = model_names()
    small = [name for name in models if name not in LARGE]
    large = [name for name in models if name in LARGE]
    found = [Pair(name, *targets[(n + first) % len(targets)]) for n, name in enumerate(small)]
    found += [Pair(name, *native[(n + first) % len(native)]) for n, name in enumerate(large)]
    met = {(p.target, p.generator) for p in found}
    rest = [t for t in targets if t not in met]
    return found + [Pair(small[(n + first) % len(small)], *t) for n, t in enumerate(rest)]


def parameters() -> list[object]:
    return [
        pytest.param(pair, id=str(pair).replace(" ", "-"), marks=pytest.mark.family(family(load_target(pair.target))))
        for pair in (sample(ROUND) if model_names() else [])
    ]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix")


@pytest.mark.parametrize("model", ["magika_f32", "mlperf_tiny_resnet_f32"])
def test_fast_arithmetic_keeps_its_bound(model: str, tmp_path: Path, shared: Path) -> None:
    """On a model's own inputs; ci/all-models --math fast does every model."""
    assert "on its own inputs" in check(Pair(model, "host", "llvm", "fast"), Place(tmp_path, shared))


@pytest.mark.parametrize("pair", parameters())
def test_a_model_on_a_target(pair: Pair, tmp_path: Path, shared: Path) -> None:
    check(pair, Place(tmp_path, shared))


@pytest.mark.parametrize("first", [0, 1, 17, 1000])
def test_the_sample_leaves_nothing_out(first: int) -> None:
    if not model_names():
        pytest.skip("the development models are not here")
    taken = sample(first)
    assert len(set(taken)) == len(taken)
    assert set(taken) <= set(pairs())
    assert {p.model for p in taken} == set(model_names())
    assert {(p.target, p.generator) for p in taken} == {(p.target, p.generator) for p in pairs()}


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", ["tflm_micro_speech_int8", "mlperf_tiny_kws_int8"])
def test_all_variants_of_an_integer_model(name: str, generator: str, tmp_path: Path) -> None:
    """`--target browser --all-variants`: each of its libraries gives what the reference kernels give."""
    model = trained(name)
    bundle = compile_to(
        tmp_path / "bundle", model.file, "browser", shapes=model.shapes(), generator=generator, all_variants=True
    )
    graph = json.loads((bundle / "graph.json").read_text())
    variants = graph.pop("variants")
    members = {key: value for key, value in graph.items() if key not in ("sterna", "hash")}
    assert [v["target"] for v in variants] == list(load_target("browser").variants)
    for variant in variants:
        members |= {
            "library": variant["library"],
            "target": {**graph["target"], "cpu_features": variant["cpu_features"]},
        }
        (bundle / "graph.json").write_bytes(graph_text(members, graph["sterna"]))
        threads = 2 if "threads" in variant["cpu_features"] else 1
        inputs, outputs = list(model.cases[0].inputs.values()), model.cases[0].outputs
        agree(model, 0, machines.run_wasm(bundle, inputs, outputs, tmp_path, threads))


def test_exact_sums_decide_where_an_emulated_processor_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model with states, which the interpreter gives beside the outputs."""
    (tmp_path / "counter.tflite").write_bytes(counter().content())
    (name,) = (v.name for v in matrix.read_model(tmp_path / "counter.tflite", matrix.ReadOptions()).arguments)
    here = np.array([8, 9], np.float32)
    model = Trained("counter", tmp_path / "counter.tflite", (Case({name: here - 7}, [here]),), 0.0, True)
    place, off = Place(tmp_path, tmp_path), np.float32(9 * NEAR)
    assert near_this_machine([here], model, place) == 0
    assert near_this_machine([here + off / 2], model, place) == pytest.approx(NEAR / 2, rel=0.1)
    with pytest.raises(AssertionError, match=r"off by .* of exact sums"):
        near_this_machine([here + 3 * off], model, place)
    monkeypatch.setattr(matrix, "interpret", lambda graph, inputs: {"y": here + 2 * off, "sum": here})
    assert near_this_machine([here + 4 * off], model, place) == pytest.approx(4 * NEAR, rel=0.1)
    with pytest.raises(AssertionError, match=r"off by .* of exact sums"):
        near_this_machine([here + 6 * off], model, place)
