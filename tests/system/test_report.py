"""`sterna report`: its data by the schema and beside `inspect`, its page, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

import sterna
from sterna import report
from sterna.cli import program
from sterna.report.data import VERSION
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
    assert time["median"] >= sum(time["nodes"]) > 0
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
