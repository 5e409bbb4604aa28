"""The page of `sterna report` in Chromium, and its script as it is built."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner

from sterna.cli import program
from sterna.cli.demo import DATA
from sterna.cli.serve import roots_of
from sterna.web.server import HOST, make_server
from support.hostile import dims, model
from support.reports import PAGE, in_chromium, large_report, page_packages
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


def test_three_clicks_lead_to_what_is_slow(tmp_path: Path) -> None:
    """One of twelve layers multiplies matrices sixty times as large as the others."""
    info, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    nodes, weights, before = [], [], "x"
    for n in range(12):
        size = 1024 if n == 7 else 128
        for name, shape in ((f"a{n}", (128, size)), (f"b{n}", (size, 128))):
            array = np.full(shape, 1e-3, np.float32)
            weights.append(onnx.numpy_helper.from_array(array, name))
        nodes += [node("MatMul", [before, f"a{n}"], [f"t{n}"], name=f"wide{n}"),
                  node("MatMul", [f"t{n}", f"b{n}"], [f"u{n}"], name=f"narrow{n}"),
                  node("Tanh", [f"u{n}"], [f"v{n}"], name=f"tanh{n}")]  # fmt: skip
        before = f"v{n}"
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, [64, 128])], [info(before, 1, [64, 128])], weights)
    file = tmp_path / "slow.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=9), file)
    found = in_chromium("hot", report(tmp_path / "slow.html", file, "-g", "llvm", "--time", "--repeat", 20))
    assert found["clicks"] <= 3
    assert "wide7" in found["beside"] or "narrow7" in found["beside"]
    assert "const float *restrict" in found["beside"], "its generated C"


def test_fifteen_hundred_nodes(tmp_path: Path) -> None:
    """It opens, and zoomed out all boxes are there; how fast is measured by `ci/report`, where nothing else runs."""
    found = in_chromium("speed", large_report(tmp_path / "large.html", 1500))
    assert found["drawn"] == 1500
    assert found["near"] > 5


def test_beside_the_page_of_serve(tmp_path: Path) -> None:
    """The server's policy allows no script within a page."""
    bundle = tmp_path / "digits"
    made = CliRunner().invoke(
        program, ["compile", str(digits().file), "-t", "browser", "-g", "llvm", "-o", str(bundle)]
    )
    assert made.exit_code == 0
    with make_server(roots_of(bundle), port=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            found = in_chromium("visit", f"http://{HOST}:{server.server_address[1]}/report/index.html")
        finally:
            server.shutdown()
            thread.join()
    tabs = ["summary", "graph", "time", "memory", "numbers"]
    assert found == {"title": "digits: report", "tabs": tabs, "measure": "../index.html#measure"}


def test_two_bundles_numbers_and_boards(tmp_path: Path) -> None:
    samples = tmp_path / "samples.npz"
    np.savez(samples, image=np.load(DATA / "images" / "3.npy").reshape(1, 1, 8, 8))
    two = report(
        tmp_path / "two.html", digits().file, digits().file, "-g", "llvm", "--data", samples, "--time", "-n", 2
    )
    many = report(
        tmp_path / "many.html", digits().file, "-g", "llvm", "--data", samples, "--also", "c99", "--weights", "fp16"
    )
    said = in_chromium("tour", tmp_path, two, many)
    assert "No limit is exceeded." in said["two"]["compare"]
    label = f"{digits().file.parent.name}/{digits().file.name} (host)"
    parts = [f"{tab}, {each}: {label}" for tab in ("Summary", "Time", "Memory", "Numbers") for each in "AB"]
    assert said["two"]["printed"] == ["Compare", *parts]
    assert "weights in fp16" in said["many"]["numbers"]
    assert "c99" in said["many"]["boards"]
