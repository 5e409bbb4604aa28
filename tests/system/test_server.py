"""The server behind `sterna serve` and clients that do not behave: over raw sockets."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from sterna.web.files import open_file
from sterna.web.server import HOST, Limits, make_server

ROOT = Path(__file__).resolve().parents[2]
FEW = Limits(connections=4)
IMPATIENT = Limits(request_seconds=1, answer_seconds=1, connections=4)
OWN = b"Host: localhost\r\n"


@contextmanager
def running(roots: dict[str, object], limits: Limits = FEW) -> Iterator[tuple[str, int]]:
    """The address of a server that has not died by the end, and whose threads have ended soon after."""
    before = threading.active_count()
    with make_server(roots, port=0, limits=limits) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address  # type: ignore[misc]
            assert b"page" in ask(server.server_address, b"GET / HTTP/1.0\r\n" + OWN + b"\r\n")  # type: ignore[arg-type]
        finally:
            server.shutdown()
            thread.join()
    end = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.02)
    assert threading.active_count() <= before


@pytest.fixture
def page(tmp_path: Path) -> Path:
    place = tmp_path / "page"
    place.mkdir()
    (place / "index.html").write_text("<title>page</title>")
    return place


def ask(address: tuple[str, int], sent: bytes, timeout: float = 30) -> bytes:
    """All that the server answers until it closes the connection."""
    with socket.create_connection(address, timeout=timeout) as client:
        client.sendall(sent)
        got = b""
        while True:
            try:
                part = client.recv(65536)
            except ConnectionResetError:
                return got
            if not part:
                return got
            got += part


def statuses(answer: bytes) -> list[int]:
    return [int(n) for n in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # a client that wants TLS
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1 more\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 403),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET / HTTP/0.9\r\n" + OWN + b"\r\n", 505),
        (b"GET /" + b"a" * 300 + b" HTTP/0.9\r\n\r\n", 505),
        (b"GET / HTTP/1." + b"9" * 50 + b"\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + OWN + b"Content-Length: 5\r\n\r\nhello", 405),
        (b"DELETE / HTTP/1.1\r\n" + OWN + b"\r\n", 405),
        (b"OPTIONS * HTTP/1.1\r\n" + OWN + b"\r\n", 405),
        (b"__init__ / HTTP/1.1\r\n" + OWN + b"\r\n", 405),
        (b"GET / HTTP/1.1\r\n" + OWN + b"Content-Length: 5\r\n\r\nhello", 413),
        (b"GET / HTTP/1.1\r\n" + OWN + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 413),
        (b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n" + OWN + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + OWN + b"X: y\r\n" * 5000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + OWN + b"X: y\r\n" * 150 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + OWN + b"Host: example.com\r\nConnection: close\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: localhost:80@example.com\r\nConnection: close\r\n\r\n", 403),
        (b"GET http://localhost/ HTTP/1.1\r\n" + OWN + b"Connection: close\r\n\r\n", 404),
        (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n" + OWN + b"Connection: close\r\n\r\n", 404),
        (b"GET /" + b"a/" * 3000 + b" HTTP/1.1\r\n" + OWN + b"Connection: close\r\n\r\n", 404),
        (b"HEAD /" + b"a" * 5000 + b" HTTP/1.1\r\n" + OWN + b"Connection: close\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\n" + OWN + b"Range: bytes=0-3\r\nConnection: close\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n" + OWN + b"Expect: 100-continue\r\nConnection: close\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n" + OWN + b"Content-Length: 0\r\nConnection: close\r\n\r\n", 200),
    ],
)
def test_requests_that_are_refused(
    request_bytes: bytes, status: int, page: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each gets one answer with the headers of all, and the connection ends; nothing is said on the terminal."""
    with running({"": page}) as address:
        answer = ask(address, request_bytes)
    assert statuses(answer) == [status]
    assert b"Content-Security-Policy: default-src 'none'" in answer
    assert b"Connection: close" in answer
    assert (b"Allow: GET, HEAD" in answer) == (status == 405)
    assert str(page).encode() not in answer
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "path",
    [
        "/%00", "/index.html%00", "/%2e%2e/secret", "/..%2fsecret", "/%c0%ae%c0%ae/secret", "/%c0%af", "/%ff",
        "/..\\secret",
        "/index.html/x", "/INDEX.HTML", "/index.html.", "/index.html%20", "/index.html::$DATA",
        "/inner/.hidden", "/inner/shown", "/outside", "/circle", "/pipe", "/forbidden", "/%", "/%zz", "/inner",
        "/../page/index.html", "/./index.html", "//%2e", "/memory/..", "/memory", "/memory/a/b", "/C:/", "/NUL",
    ],
)  # fmt: skip
def test_names_that_are_no_files_of_the_page(path: str, page: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (page / "outside").symlink_to(tmp_path / "secret")
    (page / "circle").symlink_to(page / "circle")
    (page / "inner").mkdir()
    (page / "inner" / ".hidden").write_text("secret")
    (page / "inner" / "shown").symlink_to(page / "inner" / ".hidden")
    os.mkfifo(page / "pipe")
    (page / "forbidden").mkdir(0)
    assert open_file({"": page.resolve(), "memory": {"a": b"a"}}, path) is None


def test_files_of_directories_and_of_memory(page: Path) -> None:
    (page / "inner").mkdir()
    (page / "inner" / "index.html").write_text("inner")
    (page / "link.html").symlink_to(page / "index.html")
    (page / "ärger 100%.txt").write_text("name")
    roots = {"": page.resolve(), "memory": {"a.wasm": b"\0asm"}}
    for path, data in {
        "/": b"<title>page</title>", "/?x#y": b"<title>page</title>", "/inner": b"inner", "//inner//": b"inner",
        "/link.html": b"<title>page</title>", "/memory/a.wasm?v=1": b"\0asm", "/%C3%A4rger%20100%25.txt": b"name",
    }.items():  # fmt: skip
        served = open_file(roots, path)
        assert served is not None, path
        with served.file as file:
            assert file.read() == data
            assert served.size == len(data)


def test_pipelined_requests_are_answered_in_their_order(page: Path) -> None:
    (page / "a.txt").write_text("first")
    one = b"GET /a.txt HTTP/1.1\r\n" + OWN + b"\r\n"
    with running({"": page}) as address:
        other = b"GET /nothing HTTP/1.1\r\n" + OWN + b"\r\n"
        last = b"HEAD / HTTP/1.1\r\n" + OWN + b"Connection: close\r\n\r\n"
        answer = ask(address, one * 3 + other + last)
    assert statuses(answer) == [200, 200, 200, 404, 200]
    assert answer.count(b"first") == 3
    assert not answer.endswith(b"</title>")


def test_silent_and_trickling_clients_lose_their_connection(page: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A byte now and then does not prolong the time that a whole request has."""
    with running({"": page}, IMPATIENT) as address:
        start = time.monotonic()
        assert ask(address, b"") == b""
        assert ask(address, b"GET / HTTP/1.1\r\nHost: loc") == b""
        with socket.create_connection(address) as client:
            client.settimeout(0.1)
            ended = False
            while not ended and time.monotonic() - start < 30:
                try:
                    client.sendall(b"G")
                    ended = client.recv(1) == b""
                except TimeoutError:
                    continue
                except OSError:
                    ended = True
        assert ended
    assert capfd.readouterr() == ("", "")


def test_aborted_clients_leave_no_trace(page: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (page / "large.bin").write_bytes(bytes(30 << 20))
    reset = (socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with running({"": page}, IMPATIENT) as address:
        for sent in (b"", b"GET /large.bin HTT", b"GET /large.bin HTTP/1.1\r\n" + OWN + b"\r\n"):
            with socket.create_connection(address) as client:
                client.setsockopt(*reset)
                client.sendall(sent)
                if sent.endswith(b"\n\r\n"):
                    client.recv(1000)
        # One that asks and then does not read.
        with socket.create_connection(address) as client:
            client.sendall(b"GET /large.bin HTTP/1.1\r\n" + OWN + b"\r\n")
            time.sleep(1.5)
            assert ask(address, b"GET / HTTP/1.0\r\n" + OWN + b"\r\n")
    assert capfd.readouterr() == ("", "")


def test_silent_connections_make_room(page: Path) -> None:
    """More of them than there may be at a time; whoever asks is answered at once."""
    patient = Limits(request_seconds=30, connections=8)
    with running({"": page}, patient) as address:
        silent = [socket.create_connection(address) for _ in range(30)]
        try:
            start = time.monotonic()
            for _ in range(5):
                assert statuses(ask(address, b"GET / HTTP/1.0\r\n" + OWN + b"\r\n")) == [200]
            assert time.monotonic() - start < patient.request_seconds / 2
            assert sum("process_request_thread" in thread.name for thread in threading.enumerate()) <= 8
        finally:
            for client in silent:
                client.close()


def test_large_files_are_streamed(page: Path) -> None:
    """And what becomes shorter on the way ends the connection, since what was announced cannot come."""
    import tracemalloc

    size = 64 << 20
    with (page / "large.bin").open("wb") as file:
        file.truncate(size)
    limits = Limits(connections=4)
    with running({"": page}, limits) as address:
        tracemalloc.start()
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(b"GET /large.bin HTTP/1.1\r\n" + OWN + b"Connection: close\r\n\r\n")
            total = 0
            while part := client.recv(1 << 20):
                total += len(part)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total > size
        assert peak < 8 << 20
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(b"GET /large.bin HTTP/1.1\r\n" + OWN + b"\r\n")
            client.recv(1000)
            os.truncate(page / "large.bin", 1 << 20)
            total = 0
            while part := client.recv(1 << 20):
                total += len(part)
        assert total < size


def test_a_fault_of_ours_is_one_line(
    page: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        if fails.left:  # type: ignore[attr-defined]
            fails.left -= 1  # type: ignore[attr-defined]
            raise ValueError(str(page))
        return open_file({"": page}, "/")  # type: ignore[return-value]

    fails.left = 1  # type: ignore[attr-defined]
    monkeypatch.setattr("sterna.web.server.open_file", fails)
    with running({"": page}) as address:
        assert ask(address, b"GET / HTTP/1.0\r\n" + OWN + b"\r\n") == b""
    said = capfd.readouterr().err
    assert "E0901" in said
    assert "Traceback" not in said
    assert str(page) not in said


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a process whose temporary files and cache are seen."""
    place = tmp_path_factory.mktemp("system")
    (place / "temporary").mkdir()
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "compiler"),
        "TMPDIR": str(place / "temporary"),
        "STERNA_CACHE_DIR": str(place / "cache"),
    }


#: The program, which heeds this signal even if these tests were started to ignore it (nohup).
HEEDING = """
import runpy, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
runpy.run_module("sterna", run_name="__main__")
"""


def _serve(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HEEDING, "serve", "--port", "0"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("signals", [["TERM"], ["HUP"], ["INT"], ["INT", "INT"], ["TERM", "INT", "TERM"], ["KILL"]])
def test_whatever_ends_it_leaves_nothing(signals: list[str], environment: dict[str, str]) -> None:
    temporary = Path(environment["TMPDIR"])
    process = _serve(environment)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    for name in signals:
        process.send_signal(getattr(signal, f"SIG{name}"))
    _, said = process.communicate(timeout=30)
    assert process.returncode == (-signal.SIGKILL if signals == ["KILL"] else 0)
    assert said == ""
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["TERM", "HUP", "INT"])
def test_ended_while_it_starts(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    """In the middle of compiling, when compilers have temporary folders of their own."""
    environment = {**environment, "STERNA_CACHE_DIR": str(tmp_path / "cache")}
    temporary = Path(environment["TMPDIR"])
    process = _serve(environment)
    end = time.monotonic() + 60
    while not list(temporary.glob("sterna-*")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(getattr(signal, f"SIG{name}"))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == "interrupted"
    assert list(temporary.iterdir()) == []


def test_a_start_that_fails_leaves_nothing(environment: dict[str, str]) -> None:
    with make_server({}, port=0) as server:
        assert isinstance(server, ThreadingHTTPServer)
        taken = str(server.server_address[1])
        done = subprocess.run(
            [sys.executable, "-m", "sterna", "serve", "--port", taken],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"port {taken} of {HOST} cannot be listened on" in done.stderr
    assert list(Path(environment["TMPDIR"]).iterdir()) == []
