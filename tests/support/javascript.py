"""The JavaScript runtime's tools: its packages, a browser that a script drives, a server for what the browser loads."""

from __future__ import annotations

import json
import subprocess
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


def with_dots(text: str) -> str:
    """Kernels in WGSL as the runtime writes them anew where a browser multiplies words of bytes."""
    made = _rewritten(text, "dots.js", "withDots(text, new Set(['packed_4x8_integer_dot_product']))")
    assert "dot4I8Packed" in made or "dot4U8Packed" in made
    assert "return extractBits" not in made
    return made


def with_halves(text: str) -> str:
    """Kernels in WGSL as the runtime writes them anew for a device that widens every number of 16 bits exactly."""
    # It takes every call, and what it is asked for is not wrong.
    device = """
    const given = { then: undefined, getMappedRange: () => new ArrayBuffer(4) };
    const get = (_, name) => (name in given ? given[name] : device);
    const device = new Proxy(() => {}, { apply: () => device, get });
    """
    made = _rewritten(text, "halves.js", "await withHalves(text, device)", device)
    assert made.count("unpack2x16float") == 1
    return made


def _rewritten(text: str, file: str, called: str, before: str = "") -> str:
    """What a function of one of the runtime's files for WebGPU makes of a text."""
    module = (RUNTIME / "src" / "webgpu" / file).as_uri()
    function = called.removeprefix("await ").partition("(")[0]
    script = (
        f"import {{ {function} }} from {json.dumps(module)}; import {{ readFileSync }} from 'node:fs';"
        f"const text = readFileSync(0, 'utf8'); {before} process.stdout.write({called});"
    )
    node = need("node", "runs the JavaScript runtime")
    command = [node, "--input-type=module", "-e", script]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
