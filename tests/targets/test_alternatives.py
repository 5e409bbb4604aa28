"""Bundles of several compilations (`--all-variants` where a target says `own_graphs`): which runs, what is shared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_model, compile_to
from sterna.errors import SternaError
from sterna.targets.description import load_target
from sterna_runtime import cpu_has
from sterna_runtime.reader import damaged_files, read_graph
from support import machines
from support.handmade_bundle import graph_text
from support.trained import agree, digits, trained

#: By qemu's name of a processor, the library that is to run there.
CHOSEN = {
    "cortex-a72": "model.so",
    "neoverse-n1": "model.arm64-dotprod.so",
    "max,sve=off,sme=off": "model.arm64-bf16.so",
}


def only(bundle: Path, library: str) -> None:
    """Leaves one library in a bundle, so that nothing else can be run."""
    for file in bundle.glob("*.so"):
        if file.name != library:
            file.rename(file.with_suffix(".away"))


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_each_processor_of_android_runs_what_it_can(generator: str, tmp_path: Path, arm64_host: Path) -> None:
    model = trained("mlperf_tiny_kws_int8")
    bundle = compile_to(
        tmp_path / "bundle", model.file, "arm64", shapes=model.shapes(), generator=generator, all_variants=True
    )
    graph = read_graph(bundle)
    assert [v["target"] for v in graph["variants"]] == ["arm64-bf16", "arm64-dotprod"], "arm64-fp16 adds nothing"
    assert damaged_files(graph, bundle) == []
    case = model.cases[0]
    for cpu, library in CHOSEN.items():
        only(bundle, library)
        found = machines.run_arm64(
            arm64_host, bundle, list(case.inputs.values()), case.outputs, tmp_path, threads=2, cpu=cpu
        )
        agree(model, 0, found)
        for file in bundle.glob("*.away"):
            file.rename(file.with_suffix(".so"))


def test_weights_in_the_same_form_are_stored_once() -> None:
    model = digits()
    alone = compile_model(model.file, "arm64", generator="llvm")
    together = compile_model(model.file, "arm64", generator="llvm", all_variants=True)
    assert together.params == alone.params
    assert together.alternatives == (), "float32 is computed alike on all of them"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """For two levels of x86-64, the better of which this machine has; of bytes, whose kernels differ."""
    if cpu_has("avx2") is not True or cpu_has("fma") is not True:
        pytest.skip("this machine does not run x86-64-v3")
    (tmp_path / "levels.toml").write_text('extends = "x86-64-v2"\nvariants = ["x86-64-v3"]\nown_graphs = true\n')
    return compile_to(
        tmp_path / "bundle", digits().file, str(tmp_path / "levels.toml"), generator="llvm", all_variants=True
    )


def test_this_machine_runs_the_better_one(bundle: Path) -> None:
    case = digits().cases[0]
    (library,) = [v for v in read_graph(bundle)["variants"] if v["target"] == "x86-64-v3"]
    chosen = json.loads((bundle / library["graph"]).read_text())
    assert chosen["library"] == "model.x86-64-v3.so"
    only(bundle, chosen["library"])
    with sterna.load(bundle) as loaded:
        (found,) = loaded.run(case.inputs).values()
        np.testing.assert_allclose(found, case.outputs[0], rtol=0, atol=1e-5)
        assert [node.name for node in loaded.profile()] == [node["name"] for node in chosen["nodes"]]


def test_a_variant_does_not_reach_out_of_the_bundle(bundle: Path) -> None:
    graph = json.loads((bundle / "graph.json").read_text())
    members = {key: value for key, value in graph.items() if key not in ("sterna", "hash")}
    for name, said in (("../graph.json", "E0504"), ("missing.json", "E0504"), ("kernels.c", "E0504")):
        members["variants"] = [{**graph["variants"][0], "graph": name}]
        (bundle / "graph.json").write_bytes(graph_text(members, graph["sterna"]))
        with pytest.raises(SternaError, match=said):
            sterna.load(bundle)


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ([{"graph": 7, "cpu_features": []}], "E0504"),
        ([{"graph": "", "cpu_features": []}], "E0504"),
        ([{"graph": "x" * 127, "cpu_features": []}], "E0504"),
        ([{"graph": "x" * 128, "cpu_features": []}], "E0504"),
        ([{"graph": "a\0.json", "cpu_features": []}], "E0504"),
        ([{"graph": "graph.json", "cpu_features": []}], "E0504"),
        ([{"graph": "params.bin", "cpu_features": []}], "E0504"),
        ([{"graph": "graph.x86-64-v3.json", "cpu_features": ["x" * 31]}], ""),
        ([{"graph": "graph.x86-64-v3.json", "cpu_features": ["x" * 4096]}], ""),
        ([{"graph": "graph.x86-64-v3.json", "cpu_features": [""]}], ""),
        ([{"graph": "graph.x86-64-v3.json", "cpu_features": [7]}], ""),
        ([{"graph": "graph.x86-64-v3.json", "cpu_features": {}}], ""),
        ([{"graph": "graph.x86-64-v3.json"}], ""),
        ([7, "x", [], None, {}], ""),
        ({}, ""),
    ],
)
def test_variants_that_nobody_wrote(variants: object, said: str, bundle: Path) -> None:
    """Refused where they would be chosen; without features that this machine has they are passed over."""
    graph = json.loads((bundle / "graph.json").read_text())
    members = {key: value for key, value in graph.items() if key not in ("sterna", "hash")}
    members["variants"] = variants
    (bundle / "graph.json").write_bytes(graph_text(members, graph["sterna"]))
    if said:
        with pytest.raises(SternaError, match=said):
            sterna.load(bundle)
        return
    only(bundle, graph["library"])
    with sterna.load(bundle) as loaded:
        assert loaded.run(digits().cases[0].inputs)


def test_a_changed_variant_is_refused(bundle: Path) -> None:
    name = read_graph(bundle)["variants"][0]["graph"]
    data = (bundle / name).read_bytes()
    (bundle / name).write_bytes(data.replace(b"x86-64-v3", b"x86-64-v4", 1))
    with pytest.raises(SternaError, match="E0505"):
        sterna.load(bundle)
    (bundle / name).unlink()
    with pytest.raises(SternaError, match="E0503"):
        sterna.load(bundle)


@pytest.mark.parametrize("own_graphs", ["true", "false"])
def test_variants_are_libraries_for_processors_of_one_kind(own_graphs: str, tmp_path: Path) -> None:
    description = tmp_path / "mixed.toml"
    description.write_text(
        f'extends = "arm64"\nvariants = ["c99", "armv7", "arm64-dotprod"]\nown_graphs = {own_graphs}\n'
    )
    with pytest.raises(SternaError) as caught:
        compile_model(digits().file, str(description), generator="llvm", all_variants=True)
    assert caught.value.codes == ("E0202", "E0202")
    assert "c99 is no variant of mixed" in caught.value.diagnostics[0].title


def test_processors_of_one_board_have_none() -> None:
    for name in ("raspberrypi4", "apple-a12", "arm64-i8mm", "cortex-x2"):
        assert load_target(name).variants == ()
