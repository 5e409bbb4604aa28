"""The JavaScript runtime and the C runtime accept and refuse the same graphs, and nothing ends the former.

A short run of its fuzzer (fuzz/javascript.py), which ci/fuzz runs for as long as asked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.tools import ROOT, need, run

pytestmark = pytest.mark.family("wasm32")


@pytest.fixture(scope="module")
def javascript() -> Iterator[Any]:
    need("node", "runs the JavaScript runtime")
    sys.path.insert(0, str(ROOT / "fuzz"))
    try:
        import javascript

        yield javascript
    finally:
        sys.path.remove(str(ROOT / "fuzz"))


@pytest.fixture(scope="module")
def modules(javascript: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wasm")
    javascript.build(folder)
    return folder


@pytest.fixture(scope="module")
def harness(javascript: Any, modules: Path) -> Iterator[Any]:
    made = javascript.Harness(modules)
    yield made
    made.close()


def test_both_runtimes_refuse_the_same_graphs(harness: Any) -> None:
    answer = harness.ask("cases 0 1500 11", 200)
    assert isinstance(answer, dict), answer
    assert [finding["text"] for finding in answer["findings"]] == []
    assert answer["made"] == 1500
    # It has to be able to tell: most graphs with a fault are refused, and a part of them is good enough to run.
    assert 0.1 < answer["loaded"] / 1500 < 0.7
    assert answer["rss"] < 1 << 30


@pytest.mark.parametrize("threads", [1, 3])
def test_a_trap_closes_the_model(threads: int, modules: Path) -> None:
    """A trap in a kernel is E0511, later calls are E0520, and threads that trap keep nobody waiting."""
    script = ROOT / "runtime_js" / "test" / "trap.js"
    said = run(need("node", "runs the JavaScript runtime"), script, modules, str(threads), timeout=60)
    first, second, worker = said.splitlines()
    assert first.startswith('E0511: E0511: node "n": kernel "traps" closed the model: '), first
    assert "unreachable" in first or "in a thread" in first
    assert second == 'E0520: E0520: the model "fuzz" has been disposed of'
    assert worker.startswith("E0511: "), worker


def test_death_and_silence_are_findings(javascript: Any, tmp_path: Path) -> None:
    for program, kind in (("process.exit(3)", "crash"), ("setInterval(() => 0, 1000)", "hang")):
        script = tmp_path / f"{kind}.mjs"
        script.write_text(program)
        harness = javascript.Harness(tmp_path, script)
        try:
            answer = harness.ask("cases 0 1 1", 3)
            assert [finding.kind for finding in javascript._findings(answer, b"cases 0 1 1")] == [kind]
        finally:
            harness.close()
