"""In a real browser: golden sets by the runtime, and the page of `sterna serve`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sterna.api import compile_to
from sterna.web.server import HOST, make_server
from targets.test_browser_models import TARGETS, TOLERANCE, TRIED, golden_bundle
from targets.test_runtime_js import npm_packages
from tools import ROOT, need, run
from trained import digits, sample

SCRIPT = ROOT / "runtime_js" / "test" / "chromium.js"
pytestmark = pytest.mark.family("wasm32")


@contextmanager
def served(**roots: Path) -> Iterator[str]:
    """The address of a server for the runtime and further directories."""
    fixed = {"sterna": ROOT / "runtime_js" / "src", "test": ROOT / "runtime_js" / "test"}
    with make_server({**fixed, **roots}, port=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


def chromium(*arguments: str | Path) -> str:
    """What the script prints."""
    need("chromium", "the browser that pages are tested in")
    npm_packages()
    return run(need("node", "drives the browser"), SCRIPT, *arguments, timeout=280)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_golden_sets_of_the_digits(generator: str, tmp_path: Path) -> None:
    """Every variant that the browser runs, one and two threads."""
    need("chromium", "the browser that pages are tested in")
    golden_bundle(digits(), "browser", tmp_path / "plain", generator)
    for target in ("browser-baseline", "browser-relaxed", "browser-threads", "browser-relaxed-threads"):
        bundle = compile_to(tmp_path / target, digits().file, target, generator=generator)
        for name in ("golden.json", "golden.bin"):
            (bundle / name).write_bytes((tmp_path / "plain" / name).read_bytes())
    names = sorted(path.name for path in tmp_path.iterdir())
    with served(bundles=tmp_path) as base:
        one = json.loads(chromium("replay", base, "1", *names))
        two = json.loads(chromium("replay", base, "2", "browser-threads", "browser-relaxed-threads"))
    for name, result in [*one.items(), *two.items()]:
        assert result["error"] <= (1e-4 if "relaxed" in name else 1e-5), (name, result)


@pytest.mark.parametrize("target", TARGETS)
def test_models_give_what_the_host_gives(target: str, tmp_path: Path) -> None:
    """Trained float models, one after another in one page; the generators take turns."""
    need("chromium", "the browser that pages are tested in")
    for n, name in enumerate(TRIED):
        golden_bundle(sample(name), target, tmp_path / name, "llvm" if n % 2 else "c")
    with served(bundles=tmp_path) as base:
        results = json.loads(chromium("replay", base, "1", *TRIED))
    assert set(results) == set(TRIED)
    for name, result in results.items():
        assert result.get("error", 1.0) <= TOLERANCE[target], (name, result)


def test_the_page(tmp_path: Path) -> None:
    """Digits are drawn with the mouse and recognised; a bundle is measured, with one thread and with two."""
    bundle = compile_to(tmp_path / "digits", digits().file, "browser", all_variants=True)
    with served(**{"": ROOT / "examples" / "browser", "digits": bundle, "bundle": bundle}) as base:
        assert chromium("page", base, tmp_path).strip() == "ok"
    assert {path.name for path in tmp_path.glob("*.png")} == {
        f"{tab}-{device}.png" for tab in ("draw", "measure") for device in ("wide", "phone")
    }
