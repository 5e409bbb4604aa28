"""The JavaScript runtime's tools: its packages, a browser that a script drives, a server for what the browser loads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sterna.web.files import Root
from sterna.web.server import HOST, make_server
from support.tools import ROOT, need, run

RUNTIME = ROOT / "runtime_js"
SCRIPT = RUNTIME / "test" / "chromium.js"


def npm_packages() -> Path:
    """The runtime's development packages, or a skip."""
    if not (RUNTIME / "node_modules").is_dir():
        pytest.skip("needs npm: `npm ci` in runtime_js installs what this test runs")
    return RUNTIME / "node_modules"


@contextmanager
def served(**roots: Root) -> Iterator[str]:
    """The address of a server for the runtime and further directories."""
    fixed: dict[str, Root] = {"sterna": ROOT / "runtime_js" / "src", "test": ROOT / "runtime_js" / "test"}
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
