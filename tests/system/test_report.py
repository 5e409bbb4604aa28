"""`sterna report`: its data by the schema and beside `inspect`, its page, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

import sterna
from sterna import report
from sterna.cli import program
from sterna.cli.demo import DATA
from sterna.options import Options
from sterna.report.data import VERSION
from sterna.report.making import command_of
from sterna.report.numbers import Differences
from sterna.report.page import served_files
from sterna.targets.description import load_target
from sterna.targets.memories import pools as memories_of
from sterna.targets.target import Flash
from support.hostile import NAMES, dims, model
from support.tools import need
from support.trained import digits

SCHEMA = Path(report.__file__).with_name("schema.json")
#: Of the page without its data.
MOST_BYTES = 500_000


def command(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def data_of(*arguments: object) -> dict[str, Any]:
    result = command("report", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    return found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sterna.compile_to(tmp_path_factory.mktemp("report") / "digits", digits().file, generator="llvm")


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "m4"
    return sterna.compile_to(place, digits().file, "cortex-m4", generator="llvm")


def facts(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command("inspect", bundle, "--json").stdout)
    return found


def test_the_schema_is_one() -> None:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["report"]["const"] == VERSION


def test_a_bundle_beside_inspect(host: Path) -> None:
    (subject,), known = data_of(host)["subjects"], facts(host)
    assert subject["totals"] == known["totals"]
    assert subject["bytes"] == known["bytes"]
    assert {row["name"]: row["bytes"] for row in subject["files"]} == known["sizes"]
    assert subject["hash"] == known["graph"]["hash"]
    assert [n["sources"] for n in subject["nodes"]] == [n["sources"] for n in known["graph"]["nodes"]]
    assert sum(n["multiply_adds"] for n in subject["nodes"]) == known["totals"]["multiply_adds"]
    assert subject["memory"]["arena_bytes"] == known["graph"]["arena"]["bytes"]
    assert max(subject["memory"]["alive"]) <= subject["memory"]["live_bytes"]
    assert subject["memory"]["peak"]["bytes"] == max(subject["memory"]["alive"])
    assert subject["time"] is None
    assert subject["kernels"][0]["schedule"] is None
    assert all(kernel["source"] and kernel["name"] in kernel["source"] for kernel in subject["kernels"])
    assert all(kernel["code_bytes"] > 0 for kernel in subject["kernels"])


def test_every_node_hangs_together(host: Path) -> None:
    """The digits are one chain, in which borders of padded buffers are filled."""
    (subject,) = data_of(host)["subjects"]
    reached, todo = set(), [len(subject["nodes"]) - 1]
    while todo:
        node = todo.pop()
        reached.add(node)
        todo += [a for a, b, _, _ in subject["links"] if b == node]
    assert reached == set(range(len(subject["nodes"])))


def test_a_model_with_times_and_schedules() -> None:
    (subject,) = data_of(digits().file, "--generator", "llvm", "--time", "--repeat", 3)["subjects"]
    time = subject["time"]
    assert len(time["nodes"]) == len(subject["nodes"])
    assert time["unit"] == "ns"
    assert time["runs"] == 3
    assert time["limits"]["gflops"] > 1
    assert all(kernel["schedule"] for kernel in subject["kernels"])
    assert subject["command"] == f"sterna compile {digits().file.name} --target host --generator llvm -o digits"
    assert subject["source"]["sha256"] == hashlib.sha256(digits().file.read_bytes()).hexdigest()


def test_the_command_names_memories() -> None:
    """Of a board that a target's description does not know; those of a target's own are not named."""
    target = load_target("cortex-m4")
    pools = memories_of({"dtcm": 65536, "sram": 262144}, target.alignment)
    told = Options(replace(target, memories=pools, flash=Flash(0.25, dma=True)))
    asked = "--pool dtcm=65536 --pool sram=262144 --weights-speed 0.25 --weights-dma"
    assert command_of(Path("m.onnx"), told) == f"sterna compile m.onnx --target cortex-m4 {asked} -o m"
    assert command_of(Path("m.onnx"), Options(target)) == "sterna compile m.onnx --target cortex-m4 -o m"


def test_firmware_with_flash_and_memory(firmware: Path) -> None:
    (subject,) = data_of(firmware)["subjects"]
    assert subject["kind"] == "firmware"
    assert subject["totals"]["nodes"] == 7
    assert subject["totals"]["multiply_adds"] == 88_064
    described = json.loads((firmware / "firmware.json").read_text())
    sizes = {row["what"]: row["bytes"] for row in subject["flash"]}
    code = sum(row["bytes"] for row in subject["flash"] if row["section"] == ".text")
    assert code == described["code_bytes"]
    assert sizes["weights"] == described["params_bytes"]
    assert subject["memory"]["arena_bytes"] == described["arena_bytes"]
    assert subject["links"]


def test_firmware_of_a_version_without_a_graph(firmware: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(firmware, old)
    described = json.loads((old / "firmware.json").read_text())
    del described["graph"]
    (old / "firmware.json").write_text(json.dumps(described))
    (subject,) = data_of(old)["subjects"]
    assert subject["memory"] is None
    assert subject["totals"] is None
    assert [node["name"] for node in subject["nodes"]] == [node["name"] for node in described["nodes"]]


def test_firmware_counted_on_a_board(firmware: Path) -> None:
    need("qemu-system-arm", "emulates the board")
    (subject,) = data_of(firmware, "--on", "qemu:mps2-an386", "--repeat", 1)["subjects"]
    time = subject["time"]
    assert time["unit"] == "instructions"
    # Nodes are counted in a copy of the run with a hook, of which a call takes an instruction or two more.
    assert 0 < sum(time["nodes"]) <= time["median"] + 8 * len(time["nodes"])
    assert time["stack_bytes"] > 0


def test_a_bundle_without_its_source(host: Path, tmp_path: Path) -> None:
    """No runtime needs kernels.c and model.h."""
    bundle = tmp_path / "b"
    shutil.copytree(host, bundle)
    (bundle / "kernels.c").unlink()
    (subject,) = data_of(bundle)["subjects"]
    assert all(kernel["source"] is None for kernel in subject["kernels"])


# ---- The page ----


class _Parts(HTMLParser):
    """Elements with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in = tag if tag in self.texts else ""
        if self._in:
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in:
            self.texts[self._in][-1] += data


def test_the_page_is_one_file_that_allows_itself_only(host: Path, tmp_path: Path) -> None:
    place = tmp_path / "r.html"
    result = command("report", host, "-o", place)
    assert result.exit_code == 0, result.output
    text = place.read_text(encoding="utf-8")
    parts = _Parts(text)
    data, script = parts.texts["script"]
    (style,) = parts.texts["style"]
    assert len(text) - len(data) < MOST_BYTES
    assert json.loads(data) == data_of(host)
    (policy,) = [a["content"] or "" for tag, a in parts.elements if a.get("http-equiv") == "Content-Security-Policy"]
    for kind, content in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not [a for _, a in parts.elements if "src" in a or a.get("href", "data:,") != "data:,"]
    assert not re.search(r"\bon\w+=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))


def test_a_model_for_a_device_has_its_copies_among_the_nodes() -> None:
    (subject,) = data_of(digits().file, "--target", "opencl")["subjects"]
    assert [node["name"] for node in subject["nodes"] if node["kernel"] == len(subject["kernels"]) - 1] == [
        "copy image", "copy scores",
    ]  # fmt: skip
    assert subject["kernels"][-1]["schedule"] is None
    assert any(kernel["schedule"] for kernel in subject["kernels"][:-1])
    memory, (pool,) = subject["memory"], subject["memory"]["pools"]
    assert memory["arena_bytes"] == pool["bytes"] == subject["totals"]["arena_bytes"] > 0


def test_a_node_on_the_cpu_beside_a_device_says_why() -> None:
    (subject,) = data_of(digits().file, "--target", "opencl", "--device-for", "softmax=cpu")["subjects"]
    told = {tuple(node["sources"]): node["stay"] for node in subject["nodes"] if "stay" in node}
    assert told == {("softmax",): "was put there by name: softmax"}


def test_hostile_names_stay_within_the_data(tmp_path: Path) -> None:
    file = tmp_path / "hostile.onnx"
    onnx.save(model(), file)
    sizes = [part for name in dims() for part in ("--dim", f"{name}=1..4")]
    place = tmp_path / "r.html"
    result = command("report", file, *sizes, "--generator", "llvm", "-o", place)
    assert result.exit_code == 0, result.output
    parts = _Parts(place.read_text(encoding="utf-8"))
    assert [tag for tag, _ in parts.elements] == [
        "html", "head", "meta", "meta", "meta", "meta", "title", "link", "style", "body", "div", "noscript", "script",
        "script",
    ]  # fmt: skip
    (subject,) = json.loads(parts.texts["script"][0])["subjects"]
    assert [row["name"] for row in subject["signature"]["outputs"]] == list(NAMES)


# ---- Refusals ----


def test_what_is_refused(host: Path, firmware: Path, tmp_path: Path) -> None:
    def code(*arguments: object) -> str:
        result = command("report", *arguments)
        assert result.exit_code != 0
        assert not result.stdout
        found = re.findall(r"error\[(E\d{4})\]", result.stderr)
        return str(found[0])

    assert code(tmp_path / "none") == "E0006"
    assert code(tmp_path) == "E0006"
    assert code(host, "-o", tmp_path / "r.pdf") == "E0007"
    assert code(host, "-o", tmp_path / "no" / "r.html") == "E0007"
    assert code(host, "--on", "nowhere") == "E0002"
    assert code(host, "--input", "image=none.npy") == "E0003"
    assert not list(tmp_path.iterdir())
    damaged = tmp_path / "damaged"
    shutil.copytree(host, damaged)
    (damaged / "params.bin").write_bytes(b"x")
    assert code(damaged) == "E0505"
    (damaged / "graph.json").write_text("{}")
    assert code(damaged) == "E0504"
    broken = tmp_path / "broken"
    shutil.copytree(firmware, broken)
    described = json.loads((broken / "firmware.json").read_text())
    described["graph"] = {"nodes": 3}
    (broken / "firmware.json").write_text(json.dumps(described))
    assert code(broken) == "E0504"


# ---- Numbers, two bundles, boards ----


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("samples") / "samples.npz"
    images = [np.load(path).reshape(1, 1, 8, 8) for path in sorted(DATA.glob("images/*.npy"))[:3]]
    np.savez(place, image=np.concatenate(images))
    return place


def test_errors_of_layers_are_those_of_what_was_traded(samples: Path) -> None:
    """Weights in 16 bits: what reads them first differs by their rounding, what lies before them not at all."""
    (exact,) = data_of(digits().file, "-g", "llvm", "--data", samples)["subjects"]
    (narrow,) = data_of(digits().file, "-g", "llvm", "--data", samples, "--weights", "bf16")["subjects"]
    for subject, least, most in ((exact, 0.0, 1e-5), (narrow, 1e-4, 0.05)):
        numbers = subject["numbers"]
        assert numbers["samples"] == 3
        errors = [row["error"] for row in numbers["layers"]]
        assert errors == sorted(errors, reverse=True), "the worst first"
        assert least <= errors[0] <= most
        assert numbers["outputs"][0]["reference"].startswith("onnxruntime")
        by_name = {row["name"]: row for row in numbers["layers"]}
        assert by_name["conv1/pad"]["error"] == 0, "the input, padded"
        logits = by_name["logits"]
        assert subject["nodes"][logits["node"]]["sources"] == logits["sources"] == ["dense"]
        assert logits["cosine"] > 0.999
    assert narrow["numbers"]["trade"] == "weights in bf16"


def test_ranges_of_integers_are_counted(tmp_path: Path) -> None:
    """One input at both ends of int8, its half there: half of all elements are clipped."""
    node = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], name="pool")
    info = onnx.helper.make_tensor_value_info
    given, made = info("x", onnx.TensorProto.INT8, [1, 1, 4, 8]), info("y", onnx.TensorProto.INT8, [1, 1, 4, 8])
    onnx.save(
        onnx.helper.make_model(
            onnx.helper.make_graph([node], "g", [given], [made]),
            ir_version=9,
            opset_imports=[onnx.helper.make_opsetid("", 20)],
        ),
        tmp_path / "m.onnx",
    )
    x = np.zeros((2, 1, 1, 4, 8), np.int8)
    x[0], x[1, ..., :4], x[1, ..., 4:] = 5, -128, 127
    np.savez(tmp_path / "s.npz", x=x)
    (subject,) = data_of(tmp_path / "m.onnx", "-g", "llvm", "--data", tmp_path / "s.npz")["subjects"]
    ranges = {row["name"]: row for row in subject["numbers"]["ranges"]}
    assert ranges["x"] == ranges["y"] | {"name": "x"}
    assert ranges["x"]["clipped"] == 0.5
    counts = ranges["x"]["counts"]
    assert (counts[0], counts[-1], sum(counts)) == (16, 16, 64)
    assert counts[(5 + 128) // 8] == 32


def test_a_tensor_that_is_no_number_is_the_worst() -> None:
    found = Differences()
    found.add({"a": np.array([1.0, np.nan]), "b": np.array([1.0])}, {"a": np.array([1.0, 2.0]), "b": np.array([1.5])})
    found.add({"c": np.ones(2)}, {"c": np.ones(3)})
    rows = {row["name"]: row for row in found.rows()}
    assert rows["a"]["error"] is None
    assert rows["c"]["error"] is None
    assert rows["b"]["error"] == pytest.approx(1 / 3)


def test_an_open_dimension_is_compared_at_the_samples_size(tmp_path: Path) -> None:
    info = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["t"], name="r"),
        onnx.helper.make_node("Softmax", ["t"], ["y"], name="s"),
    ]
    given, made = (info(name, onnx.TensorProto.FLOAT, ["n", 6]) for name in "xy")
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [given], [made]), ir_version=9), tmp_path / "m.onnx"
    )
    np.savez(tmp_path / "s.npz", x=np.random.default_rng(0).random((2, 3, 6), np.float32))
    (subject,) = data_of(tmp_path / "m.onnx", "-g", "llvm", "--dim", "n=1..8", "--data", tmp_path / "s.npz")["subjects"]
    assert subject["numbers"]["outputs"][0]["error"] < 1e-5
    assert subject["totals"]["sizes"] == {"n": 8}


def test_two_bundles_with_a_verdict(host: Path, samples: Path, tmp_path: Path) -> None:
    narrow = sterna.compile_to(tmp_path / "narrow", digits().file, generator="llvm", weights="bf16")
    found = data_of(host, narrow, "--data", samples, "--fail-if-larger", "0%")["comparison"]
    assert found["ok"]
    totals = {row["what"]: row for row in found["totals"]}
    assert totals["weights"]["b"] < 0.6 * totals["weights"]["a"]
    assert totals["multiply-adds"]["a"] == totals["multiply-adds"]["b"]
    assert 0 < found["outputs"][0]["error"] < 0.01
    layers = {tuple(row["sources"]): row for row in found["layers"]}
    dense = layers["dense",]
    assert dense["a"]["weights_bytes"] > dense["b"]["weights_bytes"]
    assert sorted(n for row in found["layers"] for n in row["a"]["nodes"]) == list(range(7))
    assert not any("Other" in words for words in found["verdict"])
    back = command("report", narrow, host, "--fail-if-larger", "2", "--json")
    assert back.exit_code == 1
    assert "E0011" in back.output
    assert "more than the 2 % that are allowed" in back.output


def test_two_that_are_not_of_one_model(host: Path, tmp_path: Path) -> None:
    """The page says so, and tells folders of one name apart."""
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"], name="r")], "g", [info("x", 1, [3])],
                                   [info("y", 1, [3])])  # fmt: skip
    other = sterna.compile_to(tmp_path / host.name, onnx.helper.make_model(graph, ir_version=9), generator="llvm")
    found = data_of(host, other)
    _size, inputs, outputs, nodes = found["comparison"]["verdict"]
    assert inputs == "Other inputs: image float32[1, 1, 8, 8] became x float32[3]."
    assert outputs.endswith("became y float32[3].")
    assert nodes == "No node of one model is in the other."
    names = [subject["directory"] for subject in found["subjects"]]
    assert names == [f"{each.parent.name}/{each.name}" for each in (host, other)]


def test_a_model_beside_itself_for_another_target_and_slower(host: Path, tmp_path: Path) -> None:
    """A model with six more layers cannot be as fast."""
    one = onnx.load(digits().file)
    more = onnx.ModelProto()
    more.CopyFrom(one)
    last = more.graph.node[-1]
    name = last.output[0]
    last.output[0] = "s0"
    for n in range(40):
        made = f"s{n + 1}" if n < 39 else name
        kind = "Exp" if n % 2 else "Log"
        more.graph.node.append(onnx.helper.make_node(kind, [f"s{n}"], [made], name=f"more{n}"))
    onnx.save(more, tmp_path / "more.onnx")
    slow = sterna.compile_to(tmp_path / "more", tmp_path / "more.onnx", generator="llvm", debug=True)
    place = tmp_path / "r.html"
    result = command("report", host, slow, "--fail-if-slower", "1%", "--repeat", 20, "-o", place)
    assert result.exit_code == 1
    assert "E0011" in result.output
    assert "Time:" in result.output
    assert place.is_file(), "the page is there all the same"


def test_boards_and_further_targets(firmware: Path) -> None:
    need("qemu-system-arm", "emulates the boards")
    found = data_of(digits().file, "-g", "llvm", "--board", "nrf52840", "--also", "cortex-m0plus", "--also", "c99")
    (board,) = found["boards"]
    assert board["board"] == "nrf52840"
    assert board["fits"]
    assert board["instructions"] > 1000
    assert [row["target"] for row in found["targets"]] == ["host", "cortex-m0plus", "c99"]
    assert all(row["weights_bytes"] > 10_000 for row in found["targets"])


def test_patches_are_offered_where_they_would_give_less(tmp_path: Path) -> None:
    """Two convolutions of an image: the tensor between them decides the arena."""
    info, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    weights = [onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in
               (("a", (8, 3, 3, 3)), ("b", (2, 8, 3, 3)))]  # fmt: skip
    nodes = [node("Conv", ["x", "a"], ["t"], pads=[1, 1, 1, 1], name="c1"),
             node("Conv", ["t", "b"], ["u"], pads=[1, 1, 1, 1], strides=[4, 4], name="c2"),
             node("GlobalAveragePool", ["u"], ["y"], name="p")]  # fmt: skip
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, [1, 3, 32, 32])], [info("y", 1, [1, 2, 1, 1])], weights)
    onnx.save(onnx.helper.make_model(graph, ir_version=9), tmp_path / "m.onnx")
    (subject,) = data_of(tmp_path / "m.onnx", "-g", "llvm", "--target", "cortex-m4")["subjects"]
    memory = subject["memory"]
    offered = [row for row in memory["choices"] if row["what"] == "patches"]
    assert offered
    assert all(row["bytes"] < memory["arena_bytes"] for row in offered)
    assert all(row["multiply_adds"] > 0 for row in offered)


def test_what_cannot_be_compared(host: Path, firmware: Path, samples: Path) -> None:
    def code(*arguments: object) -> str:
        result = command("report", *arguments, "--json")
        assert result.exit_code != 0
        return str(re.findall(r"E\d{4}", result.output)[0])

    assert code(host, "--data", samples) == "E0002"
    assert code(host, "--board", "nrf52840") == "E0002"
    assert code(host, "--also", "c99") == "E0002"
    assert code(host, "--fail-if-slower", "5%") == "E0002"
    assert code(host, host, "--fail-if-larger", "much") == "E0002"
    assert code(digits().file, "--data", "none.npz") == "E0003"
    assert code(digits().file, "--board", "toaster") == "E0209"


# ---- In notebooks, and served ----


def test_a_notebook_shows_the_page(host: Path) -> None:
    bundle = sterna.load(host)
    shown = bundle._repr_html_()
    assert shown is not None
    frame = _Parts(shown)
    ((tag, attributes),) = frame.elements
    assert tag == "iframe"
    assert attributes["sandbox"] == "allow-scripts"
    assert json.loads(_Parts(attributes["srcdoc"] or "").texts["script"][0]) == data_of(host)
    bundle.close()
    assert bundle._repr_html_() is None


def test_the_page_as_files_of_a_server(host: Path) -> None:
    """The server's own policy allows scripts of its origin, and none within a page."""
    files = served_files(data_of(host), measure="../index.html#measure")
    parts = _Parts(files["index.html"].decode())
    assert json.loads(parts.texts["script"][0]) == data_of(host)
    assert [a["src"] for tag, a in parts.elements if a.get("src")] == ["page.js"]
    assert parts.texts["style"] == []
    assert dict(parts.elements)["body"] == {"data-measure": "../index.html#measure"}
    assert json.loads(files["hash.json"]) == data_of(host)["subjects"][0]["hash"]
    assert set(files) == {"index.html", "page.js", "page.css", "hash.json"}
