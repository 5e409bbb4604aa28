"""A short run of the fuzzer of the server (fuzz/serve.py), which ci/fuzz runs for longer; and what it can find."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.tools import ROOT

#: The standard library's server as it comes: follows links, shows hidden files, waits for ever, prints tracebacks.
CARELESS = """
import sys
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
class Handler(SimpleHTTPRequestHandler):
    def do_POST(self):
        raise ValueError
    def log_message(self, *_):
        pass
with HTTPServer(("127.0.0.1", 0), partial(Handler, directory=sys.argv[1])) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


@pytest.fixture(scope="module")
def serve() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "fuzz"))
    try:
        import serve

        yield serve
    finally:
        sys.path.remove(str(ROOT / "fuzz"))


def _case(sent: bytes, end: str = "read") -> bytes:
    return json.dumps({"end": end, "pieces": 1}).encode() + b"\n" + sent


def test_nothing_is_found(serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'compiler'}:{ROOT / 'fuzz'}")
    from frame import Budget

    budget = Budget(seconds=60, executions=300)
    assert [(finding.kind, finding.text) for finding in serve.fuzz(budget, 3, tmp_path)] == []
    assert budget.made >= 100


def test_the_same_seed_makes_the_same_cases(serve: Any) -> None:
    assert [serve.make_case(n, 1) for n in range(50)] == [serve.make_case(n, 1) for n in range(50)]
    assert serve.make_case(1, 1) != serve.make_case(1, 2)


def test_what_it_finds_in_a_careless_server(serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "careless.py"
    script.write_text(CARELESS)
    monkeypatch.setattr(serve, "MARGIN_SECONDS", 0.5)
    server = serve.Server(tmp_path, script)
    found = {}
    try:
        for name, data in {
            "link": _case(b"GET /link HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            "hidden": _case(b"GET /.hidden HTTP/1.0\r\n\r\n"),
            "fault": _case(b"POST / HTTP/1.0\r\n\r\n"),
            "old": _case(b"GET /index.html\r\n\r\n"),
            "silent": _case(b"GET /", "wait"),
        }.items():
            found[name] = [finding.kind for finding in server.execute(data)]
            server.start()
    finally:
        server.close()
    assert "hang" in found["silent"]
    assert "wrong" in found["old"]
    assert "wrong" in found["link"]
    assert "wrong" in found["hidden"]
    assert "uncaught" in found["fault"]
