"""The page of `sterna report` in Chromium, and its script as it is built."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from click.testing import CliRunner

from sterna.cli import program
from support.hostile import dims, model
from support.reports import PAGE, in_chromium, page_packages
from support.tools import ROOT, need, run
from support.trained import digits


def report(place: Path, *arguments: object) -> Path:
    result = CliRunner().invoke(program, ["report", *(str(a) for a in arguments), "-o", str(place)])
    assert result.exit_code == 0, result.output
    return place


def test_what_is_committed_is_what_is_built(tmp_path: Path) -> None:
    page_packages()
    run(need("node", "builds the page"), PAGE / "build.js", tmp_path)
    for name in ("page.js", "page.css", "licenses.txt"):
        assert (tmp_path / name).read_bytes() == (ROOT / "templates" / "report" / name).read_bytes(), name


def test_every_tab_of_a_host_and_of_firmware(tmp_path: Path) -> None:
    """At three widths: no error, no request, nothing wider than the screen, no serious finding of axe-core."""
    host = report(tmp_path / "host.html", digits().file, "--generator", "llvm", "--time", "--repeat", 3)
    firmware = report(tmp_path / "firmware.html", digits().file, "--generator", "llvm", "--target", "cortex-m4")
    said = in_chromium("tour", tmp_path, host, firmware)
    bundle = tmp_path / "digits"
    assert CliRunner().invoke(program, ["compile", str(digits().file), "-g", "llvm", "-o", str(bundle)]).exit_code == 0
    known = json.loads(CliRunner().invoke(program, ["inspect", str(bundle), "--json"]).stdout)
    shown = said["host"]["facts"]
    assert shown["multiply-adds"] == f"{known['totals']['multiply_adds']:,}"
    assert shown["nodes"] == str(known["totals"]["nodes"])
    assert shown["arena"] == f"{known['totals']['arena_bytes']:,} B"
    nodes = said["host"]["nodes"]
    assert len(nodes) == known["totals"]["nodes"]
    for number, text in nodes.items():
        row = known["graph"]["nodes"][int(number)]
        assert all(source in text for source in row["sources"])
        assert known["graph"]["kernels"][row["kernel"]]["name"] in text
    assert ".text" in said["firmware"]["memory"]
    assert len(list(tmp_path.glob("host-*-phone.png"))) == len(list(tmp_path.glob("host-*-wide.png"))) >= 5


def test_hostile_names_do_nothing(tmp_path: Path) -> None:
    file = tmp_path / "hostile.onnx"
    onnx.save(model(), file)
    sizes = [part for name in dims() for part in ("--dim", f"{name}=1..4")]
    place = report(tmp_path / "hostile.html", file, *sizes, "-g", "llvm", "--time", "--repeat", 1)
    said = in_chromium("tour", "-", place)
    assert "\\u001b[31mred" in said["hostile"]["summary"]
    assert "\\u202egnp.exe" in said["hostile"]["time"]
