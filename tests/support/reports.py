"""Reports in Chromium: what the page's own packages build, and a script that uses pages as people do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sterna.report.data import describe, document
from sterna.report.page import page
from sterna.report.subject import Subject
from sterna_runtime.describe import BundleFacts
from support.tools import ROOT, need, run

PAGE = ROOT / "report_page"


def page_packages() -> Path:
    """The development packages of the page, or a skip."""
    if not (PAGE / "node_modules").is_dir():
        pytest.skip("needs npm: `npm ci` in report_page installs what this test runs")
    return PAGE / "node_modules"


def in_chromium(what: str, *arguments: str | Path) -> Any:
    """What the script says of reports: of `tour`, `speed`, `hot` or `visit`."""
    need("chromium", "the browser that pages are tested in")
    page_packages()
    return json.loads(
        run(need("node", "drives the browser"), PAGE / "test" / "report.js", what, *arguments, timeout=280)
    )


def large_report(place: Path, count: int) -> Path:
    """The page of a bundle that was never compiled: many nodes, of which some go on two branches or skip others."""
    values, nodes = [], []

    def value(name: str, kind: str, at: int) -> dict[str, Any]:
        storage = {"class": kind, "offset": at, "bytes": 4096, "origin": 0, "strides": [1]}
        return {"name": name, "dtype": "float32", "dims": [1024], "storage": storage}

    values.append(value("x", "input", 0))
    for n in range(count):
        values.append(value(f"layer{n}/out", "output" if n == count - 1 else "arena", 4096 * n))
        read = [n, *([n - 3] if n % 4 == 0 and n > 3 else []), *([n - 29] if n % 20 == 0 and n > 40 else [])]
        nodes.append(
            {"name": f"layer{n}", "kernel": n % 50, "in": read, "out": [n + 1], "tasks": 4,
             "params_bytes": 64 * (n % 7), "multiply_adds": 1000 * (n % 13),
             "sources": [f"block{n // 10}/layer{n}", f"block{n // 10}/act{n}"]}
        )  # fmt: skip
    graph = {
        "model": "large", "target": {"name": "host", "triple": "x86_64-linux-gnu", "cpu_features": []},
        "hash": "0" * 16, "files": {}, "options": {}, "arena": {"bytes": 4096 * count, "live_bytes": 8192},
        "scratch_bytes": 0,
        "kernels": [{"name": f"k{n}_conv"} for n in range(50)], "values": values, "inputs": [0], "outputs": [count],
        "nodes": nodes,
    }  # fmt: skip
    subject = Subject(BundleFacts(Path("large"), graph, {"graph.json": 1}, True), graph)
    place.write_text(page(document([describe(subject)])), encoding="utf-8")
    return place
