"""WebGPU in Chromium, on SwiftShader: models for `webgpu` by `sterna/webgpu`, and what becomes of them without it.

STERNA_WEBGPU=all gives kernels of every operator to the browser's compiler, and every model of the sample to its
device.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, parser

import sterna
from sterna.api import compile_model, compile_to, options_of
from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files
from sterna.cli import program
from sterna.cli.serve import roots_of
from sterna.debug.golden import GoldenSet, golden_files
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.targets.description import load_target
from support.browser_models import SAMPLE, golden_bundle
from support.control_flow import CHOICE, TRIPS, model, numbers
from support.data_sized import detections, detector
from support.every_operator import every_operator
from support.exchanging_rows import rows
from support.half_networks import CONVERSIONS, every_number, half_convolutions, wrong_numbers
from support.javascript import chromium, served, with_dots
from support.open_networks import OpenGraph, encoder
from support.quantized_networks import network, quantized
from support.trained import digits, sample
from support.wgsl_host import wgsl_target

pytestmark = pytest.mark.family("wasm32")
ALL = os.environ.get("STERNA_WEBGPU") == "all"
TRIED = SAMPLE if ALL else ("digits", "dtln_1_f32", "g2p_id_bert_f32")
PARTS = 8
SAMPLED = range(PARTS) if ALL else (0,)


def tried(bundles: Path, *tries: list[Any]) -> list[Any]:
    """What the functions of runtime_js/test/webgpu.js give."""
    with served(bundles=bundles) as base:
        results: list[Any] = json.loads(chromium("webgpu", base, json.dumps(tries)))
    for call, result in zip(tries, results, strict=True):
        assert not (isinstance(result, dict) and "problem" in result), (call, result)
    return results


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits for the GPU and for WebAssembly."""
    place = tmp_path_factory.mktemp("both")
    for name, target in (("gpu", "webgpu"), ("wasm", "browser")):
        compile_to(place / name, digits().file, target)
    return place


def test_models_give_what_the_host_gives(tmp_path: Path) -> None:
    for name in TRIED:
        golden_bundle(digits() if name == "digits" else sample(name), "webgpu", tmp_path / name)
    for name, result in zip(TRIED, tried(tmp_path, *(["golden", name] for name in TRIED)), strict=True):
        assert result["error"] <= 1e-4, (name, result)
        assert result["library"] == "kernels.wgsl"


def test_its_compiler_takes_kernels_of_every_operator(tmp_path: Path) -> None:
    """Barriers in uniform control flow among them, which other compilers do not ask for."""
    names = []
    for part in SAMPLED:
        graph, _, _ = every_operator(part=part, parts=PARTS)
        for groups in (False, True):
            names.append(f"{part}{groups}.wgsl")
            compiled = compile_graph(graph, "small", Options(wgsl_target(groups)))
            (tmp_path / names[-1]).write_text(compiled.source)
    assert tried(tmp_path, *(["compiled", name] for name in names)) == [[]] * len(names)


def test_numbers_at_the_ends_of_floats(tmp_path: Path) -> None:
    """The least number of all is what exporters of PyTorch hide scores with."""
    info = np.finfo(np.float32)
    ends = [info.min, info.max, info.tiny, -info.tiny, info.smallest_subnormal]
    g = OpenGraph(seed=1)
    x = g.input("x", [4])
    seen = g.node("Greater", x, g.constant(np.float32(0)))
    for end in ends:
        g.output(g.node("Where", seen, x, g.constant(np.float32(end))))
    given = {"x": np.array([1, -1, 2, -2], np.float32)}
    wanted = [np.where(given["x"] > 0, given["x"], np.float32(end)) for end in ends]
    model = g.finished("ends")
    bundle = compile_to(tmp_path / "bundle", model, "webgpu")
    named = {o.name: array for o, array in zip(model.graph.output, wanted, strict=True)}
    for name, data in golden_files("NumPy", [GoldenSet(given, named)], 1e-6).items():
        (bundle / name).write_bytes(data)
    (found,) = tried(tmp_path, ["golden", "bundle"])
    assert found["error"] <= 1e-6


def test_weights_that_are_subnormal_in_16_bits(tmp_path: Path) -> None:
    """Weights of float16 that are stored as they are: SwiftShader takes subnormal float32 for 0."""
    rng = np.random.default_rng(8)
    weights = (rng.integers(1, 1024, (64, 32)) * 2.0**-24).astype(np.float32)
    x = rng.random((16, 64)).astype(np.float32)
    g = OpenGraph(seed=1)
    wide = g.node("Cast", g.constant(weights.astype(np.float16)), to=TensorProto.FLOAT)
    g.output(g.node("MatMul", g.input("x", [16, 64]), wide))
    bundle = compile_to(tmp_path / "bundle", g.finished("small"), "webgpu")
    assert (bundle / "params.bin").stat().st_size == 2 * weights.size
    for name, data in golden_files("NumPy", [GoldenSet({"x": x}, {"output0": x @ weights})], 1e-5).items():
        (bundle / name).write_bytes(data)
    (found,) = tried(tmp_path, ["golden", "bundle"])
    assert found["error"] <= 1e-5


@pytest.mark.parametrize("signs", ["int8", "uint8"])
def test_bytes(signs: str, tmp_path: Path) -> None:
    """A quantized network; the compiler takes the language's own dot products, and functions in their place."""
    file = quantized(network, tmp_path, signs, "int8", channels=True)
    given = {"x": np.random.default_rng(6).standard_normal((1, 3, 18, 18)).astype(np.float32)}
    with sterna.compile(file) as host:
        wanted = {name: np.array(array) for name, array in host.run(given).items()}
    bundle = compile_to(tmp_path / "bundle", file, "webgpu")
    for name, data in golden_files("the host", [GoldenSet(given, wanted)], 1e-5).items():
        (bundle / name).write_bytes(data)
    text = (bundle / "kernels.wgsl").read_text()
    for name, each in (("apart.wgsl", text), ("own.wgsl", with_dots(text))):
        (tmp_path / name).write_text(each)
    found, *said = tried(tmp_path, ["golden", "bundle"], ["compiled", "apart.wgsl"], ["compiled", "own.wgsl"])
    assert found["error"] <= 1e-5
    assert said == [[], []]


def test_buffers_of_the_page(both: Path) -> None:
    (found,) = tried(both, ["buffers", "gpu"])
    assert found["equal"] == [0, 0, 0, 0]
    assert found["differs"]
    assert found["dims"] == [1, 10]
    assert found["pipelines"][1] == found["pipelines"][2] == len(found["names"])
    assert all(found["timed"])
    assert [text.split(":")[0] for text in found["refused"]] == ["E0602", "E0509", "E0604", "E0603"]
    assert found["after"].startswith("E0520")
    assert not found["lost"], "a device of the page's own is not destroyed"


def test_pictures(both: Path) -> None:
    (found,) = tried(both, ["pictures", "gpu", "wasm"])
    assert set(found["apart"]) == {"canvas", "bitmap", "image", "frame", "yuv"}
    assert max(found["apart"].values()) < 1e-5
    assert found["backends"] == ["webgpu", "wasm"]
    assert found["reasons"][0] == ""


def test_where_webgpu_is_missing_or_too_small(both: Path) -> None:
    (found,) = tried(both, ["missing", "gpu", "wasm"])
    for reason, words in (("none", "not here"), ("noAdapter", "no adapter"), ("small", "maxStorageBufferBindingSize")):
        assert found[reason].startswith("E0507"), found
        assert words in found[reason]
        assert "--target browser" in found[reason]
    backend, why, outputs = found["taken"]
    assert (backend, outputs) == ("wasm", ["scores"])
    assert why == found["small"]
    assert found["other"] == ["wasm", "nothing of the model is for the GPU"]
    assert found["damaged"].startswith("E0505: kernels.wgsl")


def test_exchanges_in_subgroups(tmp_path: Path) -> None:
    """Where the adapter's subgroups are narrower than those that the kernels were compiled for, or there are none."""
    text = "rows (float[8, 32] x) => (float[8, 32] y) { y = Softmax <axis = -1> (x) }"
    for threads in (4, 32):
        described = tmp_path / f"of{threads}.toml"
        described.write_text(f'extends = "webgpu"\ndescription = "exchanges"\n[threads]\nsubgroup = {threads}\n')
        compile_to(tmp_path / f"gpu{threads}", parser.parse_model(model(text)), str(described))
        (device,) = json.loads((tmp_path / f"gpu{threads}" / "graph.json").read_text())["devices"]
        assert device["needs"] == [f"subgroup_{threads}"]
    compile_to(tmp_path / "gpu1", parser.parse_model(model(text)), "webgpu")
    (found,) = tried(tmp_path, ["exchanges", "gpu1", "gpu4", "gpu32"])
    least = found["least"]
    for threads, said in (("4", found["few"]), ("32", found["many"])):
        if least >= int(threads):
            assert said < 1e-5
        else:
            assert said.startswith("E0507")
            assert (f"subgroups of {threads} (here {least})" if least else "subgroups") in said
            assert "--target browser" in said
    assert found["without"].startswith("E0507: the kernels need subgroups: compile with --target browser")


def test_exchanges_where_there_are_subgroups(tmp_path: Path) -> None:
    """One bundle: its kernels exchange values where the adapter's subgroups are as wide as those of SwiftShader, and do
    not where it has none, where the page's own device has none, and where neighbours lie elsewhere."""
    described = tmp_path / "some.toml"
    described.write_text('extends = "webgpu"\ndescription = "some"\n[threads]\noptional_subgroups = [128, 4]\n')
    compile_to(tmp_path / "gpu", rows(), str(described))
    graph = json.loads((tmp_path / "gpu" / "graph.json").read_text())
    assert graph["devices"][0]["needs"] == []
    plain = [kernel["name"] for kernel in graph["kernels"]]
    widths = [{each["subgroup"] for each in kernel.get("exchanging", ())} for kernel in graph["kernels"]]
    wide = [name + "_subgroup4" * (4 in own) for name, own in zip(plain, widths, strict=True)]
    assert sum(name.endswith("_subgroup4") for name in wide) >= 3
    (found,) = tried(tmp_path, ["exchanging", "gpu"])
    if found["least"] != 4:
        pytest.skip(f"SwiftShader has subgroups of 4 at least, and this adapter of {found['least']}")
    assert found["ran"] == wide
    assert "subgroups" not in found["requested"]
    assert [names for names, _ in found["others"]] == [plain, plain, plain]
    assert max(far for _, far in found["others"]) < 1e-5


def test_16_bits(tmp_path: Path) -> None:
    """Tensors take no more, and results are what the model's own roundings give. Numbers are widened by the language's
    own function where it does so exactly, by integers where it takes subnormal ones for 0, and rounded by integers."""
    there = {"*": "webgpu"}
    made = compile_to(tmp_path / "numbers", parser.parse_model(model(CONVERSIONS)), "webgpu", device_for=there)
    graph = json.loads((made / "graph.json").read_text())
    assert graph["devices"][0]["needs"] == []
    assert all(kernel["device"] == 1 for kernel in graph["kernels"])
    for name, array in every_number().items():
        (tmp_path / name).write_bytes(array.tobytes())
    network = half_convolutions()
    given = {"x": np.random.default_rng(1).standard_normal((1, 3, 24, 24)).astype(np.float16)}
    wanted = {"y": interpret(read(network), given)["y"]}
    bundle = compile_to(tmp_path / "bundle", network, "webgpu", device_for=there)
    for name, data in golden_files("the interpreter", [GoldenSet(given, wanted)], 4e-3).items():
        (bundle / name).write_bytes(data)
    ways, found = tried(tmp_path, ["halves", "numbers"], ["golden", "bundle"])
    assert [way["own"] for way in ways] == [True, False]
    for way in ways:
        bits = {"wide": np.array(way["wide"], np.uint32), "narrow": np.array(way["narrow"], np.uint16)}
        assert wrong_numbers(bits) == []
    assert found["error"] <= 4e-3


def test_a_device_that_is_lost(both: Path) -> None:
    (found,) = tried(both, ["lost", "gpu"])
    assert found["devices"] == 2, "the model took another one"
    assert found["apart"] == 0
    assert found["refused"].startswith("E0511: the device was lost")
    assert found["disposed"].startswith("E0520")
    assert (found["given"], found["reason"]) == (1, "destroyed"), "nothing is kept of a model that is disposed of"


def test_beside_webassembly_in_the_page_of_serve(both: Path) -> None:
    with served(**roots_of(both / "wasm", both / "gpu")) as base:
        shown = json.loads(chromium("beside", base))
    assert shown["problems"] == []
    assert [row[0] for row in shown["rows"]] == [
        "one run, with inputs and outputs",
        "start to first result",
        "memory",
    ]
    assert all(re.fullmatch(r"[\d.]+ (µs|ms|kB|MB)", cell) for row in shown["rows"] for cell in row[1:]), shown
    found = re.fullmatch(r"The largest difference of their outputs is (\S+) of the largest output\.", shown["note"])
    assert found is not None, shown
    assert float(found[1]) < 1e-5


def test_what_is_not_served_beside(both: Path, tmp_path: Path) -> None:
    other = compile_to(tmp_path / "other", sample("tflm_hello_world_f32").file, "webgpu")
    mixed = compile_to(tmp_path / "mixed", digits().file, "webgpu", device_for={"*softmax*": "cpu"})
    for words, code, said in (
        ([both / "wasm", "--gpu", both / "wasm"], "E0507", "--target webgpu"),
        (["--gpu", both / "gpu"], "E0002", "sterna serve BUNDLE --gpu BUNDLE"),
        ([both / "wasm", "--gpu", other], "E0002", "two bundles of one model"),
        ([other], "E0507", f"sterna serve BUNDLE --gpu {other}"),
        ([mixed], "E0507", f"sterna serve BUNDLE --gpu {mixed}"),
    ):
        done = CliRunner().invoke(program, ["serve", *map(str, words), "--port", "0"])
        assert done.exit_code != 0
        assert code in done.output
        assert said in done.output


def test_open_sizes(tmp_path: Path) -> None:
    dims = {"batch": (1, 8), "seq": (1, 48)}
    for name, target in (("gpu", "webgpu"), ("wasm", "browser")):
        write_files(bundle_files(compile_model(encoder(), target, None, dims)), tmp_path / name)
    names = [i.name for i in encoder().graph.input]
    runs = [{name: [batch, length] for name in names} for batch, length in ((2, 7), (1, 48), (8, 1), (2, 7))]
    (found,) = tried(tmp_path, ["sizes", "gpu", "wasm", *runs])
    assert max(found["apart"]) < 1e-4, found
    assert {each["name"]: each["size"] for each in found["dims"]} == {"batch": 2, "seq": 7}


def beside(place: Path, network: Any, runs: list[dict[str, Any]], **given: Any) -> tuple[dict[str, Any], Any]:
    """What a page makes of a model with nodes on the CPU beside those on the GPU, and its graph.json."""
    graph = json.loads((compile_to(place / "both", network, "webgpu", **given) / "graph.json").read_text())
    compile_to(place / "wasm", network, "browser")
    lists = [{name: np.asarray(x).tolist() for name, x in run.items()} for run in runs]
    listed = [{name: x if isinstance(x, list) else [x] for name, x in run.items()} for run in lists]
    (found,) = tried(place, ["mixed", "both", "wasm", *listed])
    return found, graph


def test_nodes_on_the_cpu_beside_it(tmp_path: Path) -> None:
    """The third layer of the digits and the last run in WebAssembly of the same bundle."""
    case = digits().cases[0].inputs
    names = [kernel.function.name for kernel in compile_model(digits().file, "webgpu").kernels]
    given = {f"*{name.split('_', 1)[1]}": "cpu" for name in (names[2], names[-1])}
    found, graph = beside(tmp_path, digits().file, [case], device_for=given)
    here = [node for node in graph["nodes"] if "op" not in node and "device" not in node]
    there = [node for node in graph["nodes"] if node.get("device") == 1]
    copies = [node for node in graph["nodes"] if node.get("op") == "copy"]
    assert here
    assert there
    assert found["backend"] == "webgpu"
    assert found["library"] == "kernels.wgsl"
    assert max(found["apart"]) < 1e-5, found
    # One wait for each stretch of nodes on the CPU that reads what the GPU made; a write for each copy, and the input.
    assert found["calls"] == [[sum(copy["to"] for copy in copies), sum(copy["from"] for copy in copies)]]
    assert all(good for _, good in found["timed"])
    assert "E0520" in found["after"]


@pytest.mark.parametrize("text", [CHOICE, TRIPS])
def test_control_flow_beside_it(text: str, tmp_path: Path) -> None:
    x, y = numbers(3, 4), numbers(4, 4)
    if text is CHOICE:
        runs = [{"hot": hot, "x": x, "y": y} for hot in (True, False, True)]
    else:
        runs = [{"trips": trips, "first": y, "x": numbers(4, 4) * 0.1} for trips in (3, 0, 5)]
    found, graph = beside(tmp_path, parser.parse_model(model(text)), runs)
    assert max(found["apart"]) < 1e-5, found
    assert found["backend"] == ("webgpu" if "devices" in graph else "wasm")
    assert found["reason"] == ("" if "devices" in graph else "nothing of the model is for the GPU")


def test_sizes_that_the_cpu_computes(tmp_path: Path) -> None:
    found, graph = beside(tmp_path, detector(12, 3, None), detections(12, 3))
    assert any(node.get("device") == 1 for node in graph["nodes"])
    assert max(found["apart"]) < 1e-5, found


def test_states_beside_it(tmp_path: Path) -> None:
    """A network with states, the first third of which the CPU runs, as a sequence."""
    trained = sample("micro_wakeword_okay_nabu_int8")
    calls = compile_model(trained.file, "webgpu").calls
    given = {call.name: "cpu" for call in calls[: len(calls) // 3]}
    found, graph = beside(tmp_path, trained.file, [case.inputs for case in trained.cases[:2]], device_for=given)
    assert {state.get("device", 0) for state in graph["states"]} == {0, 1}
    assert max(found["apart"]) == 0, found


def test_what_runs_beside_it() -> None:
    assert options_of("webgpu").host == load_target("browser")
    assert options_of("webgpu", host="browser-relaxed").host == load_target("browser-relaxed")
    for target, host, instead in (("webgpu", "arm64", "browser"), ("opencl", "browser", "arm64")):
        with pytest.raises(SternaError, match="gives no library that runs beside the device") as caught:
            options_of(target, host=host)
        assert caught.value.codes == ("E0203",)
        assert instead in str(caught.value.diagnostics[0].fix)


def test_what_differs_is_told_where_no_tensor_between_is_read(tmp_path: Path) -> None:
    place = tmp_path / "digits.onnx"
    place.write_bytes(Path(digits().file).read_bytes())
    words = ["verify", str(place), "--target", "webgpu", "--on", "chromium", "--tolerance", "0"]
    done = CliRunner().invoke(program, [*words, "--against", "interpreter"])
    assert done.exit_code == 1
    assert "scores" in done.output
    assert "E0510" not in done.output
