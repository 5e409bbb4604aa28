"""Every end of docs/rpc.md answers as its table of conversations says."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import sterna
from sterna.api import compile_to
from sterna.cli import program as sterna_program
from sterna.package import natives
from sterna.web.relay import relay
from sterna_runtime import hash64
from support import java
from support.rpc_conformance import CONVERSATIONS, WITH_A_MODEL, WITH_A_TOKEN, loaded
from support.rpc_ends import End, SocketStream, browsing, listening, paged
from support.rpc_server import server_program, started
from support.rpc_steps import Conversation, Step, Talk, files_of, hold, load_of, text, u32
from support.rpc_wire import BUSY, BYE, CRASHED, HEAD, HELLO, LOAD, RUN, SLOW, STATE, TOKEN, TURN, Wire
from support.tools import ROOT, need, run

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"
FEED = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
NODE = ROOT / "runtime_js" / "src" / "rpc" / "main.js"

Bundles = Callable[[str], dict[str, bytes]]

pytestmark = pytest.mark.family("wasm32")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """The files of the digits for a target."""
    place = tmp_path_factory.mktemp("rpc")
    return functools.cache(lambda name: files_of(compile_to(place / name, MODEL, name, generator="llvm")))


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    with sterna.load(compile_to(tmp_path_factory.mktemp("rpc") / "here", MODEL, generator="llvm")) as here:
        return here.run({"image": FEED})["scores"]


@contextlib.contextmanager
def node(token: bool) -> Iterator[End]:
    with listening("javascript", [need("node", "is a device"), NODE, "0"], token) as end:
        yield end


@contextlib.contextmanager
def page(token: bool) -> Iterator[End]:
    with paged(need("chromium", "a page of it is a device"), token) as end:
        yield end


@contextlib.contextmanager
def in_c(token: bool) -> Iterator[End]:
    secret = TOKEN.decode() if token else None
    with tempfile.TemporaryDirectory() as folder, started([server_program()], Path(folder), token=secret) as running:
        yield End("c", running.port, "host")


@functools.cache
def java_classes() -> tuple[Path, Path]:
    """The Java runtime's classes and its native library, for as long as this process lives."""
    place = Path(tempfile.mkdtemp(prefix="sterna-java-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = java.RUNTIME / "src" / "main" / "java" / "dev" / "sterna"
    device = java.RUNTIME / "src" / "test" / "java" / "dev" / "sterna" / "RpcDevice.java"
    sources = [*folder.glob("*.java"), *(java.RUNTIME / "stubs").rglob("*.java"), device]
    run(need("javac", "compiles the Java runtime"), "-nowarn", "-d", place / "classes", *sources)
    return place / "classes", natives.build(natives.PLATFORMS["linux-x86_64"], place / "natives")


@contextlib.contextmanager
def in_java(token: bool, *more: str) -> Iterator[End]:
    classes, library = java_classes()
    options = (f"-Ddev.sterna.library={library}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes)
    with tempfile.TemporaryDirectory() as folder:
        command = ["java", *options, "dev.sterna.RpcDevice", Path(folder, "rpc"), *more]
        with listening("java", command, token, "host") as end:
            yield end


#: How an end is started, with a token or without.
ENDS = {"c": in_c, "java": in_java, "node": node, "page": page}


@pytest.fixture(scope="module", params=ENDS)
def end(request: pytest.FixtureRequest) -> Iterator[End]:
    with ENDS[request.param](False) as found:
        yield found


@pytest.fixture(scope="module", params=ENDS)
def guarded(request: pytest.FixtureRequest) -> Iterator[End]:
    with ENDS[request.param](True) as found:
        yield found


def talk_with(end: End, bundles: Bundles, wanted: np.ndarray) -> Talk:
    return Talk(Wire(SocketStream(end.port)), bundles(end.target), FEED, wanted, end.name)


@pytest.mark.parametrize(
    ("words", "known", "said"),
    [
        (["soon"], {}, 'error[E0002]: "soon" is no port'),
        (["0", "127.0.0.1", "more"], {}, "error[E0002]: "),
        (["0", "0.0.0.0"], {}, "error[E0002]: a device that others reach demands a token"),
        (["0"], {"STERNA_RPC_TOKEN": "short"}, "error[E0002]: the token has 5 bytes"),
        (["0", "192.0.2.77"], {"STERNA_RPC_TOKEN": "x" * 16}, "error[E0010]: listen EADDRNOTAVAIL"),
        (["0"], {"STERNA_RPC_TOKEN": "", "STERNA_RPC_TOKEN_FILE": "/nothing"}, "error[E0010]: ENOENT"),
    ],
)
def test_a_program_of_node_that_cannot_begin_says_why(words: list[str], known: dict[str, str], said: str) -> None:
    command = [need("node", "is a device"), NODE, *words]
    environment = {**os.environ, **known}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == (2 if "E0002" in said else 1)
    assert done.stderr.startswith(said), done.stderr
    assert re.fullmatch(r".*\n  fix: .*\n", done.stderr), done.stderr


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda c: c.name)
def test_from_the_first_frame_on(conversation: Conversation, end: End, bundles: Bundles, wanted: np.ndarray) -> None:
    hold(conversation, talk_with(end, bundles, wanted))


@pytest.mark.parametrize("conversation", WITH_A_MODEL, ids=lambda c: c.name)
def test_with_a_model(conversation: Conversation, end: End, bundles: Bundles, wanted: np.ndarray) -> None:
    talk = talk_with(end, bundles, wanted)
    with contextlib.closing(talk.wire.stream):
        loaded(talk, files=True)
        hold(conversation, talk)


@pytest.mark.parametrize("conversation", WITH_A_TOKEN, ids=lambda c: c.name)
def test_with_a_token(conversation: Conversation, guarded: End, bundles: Bundles, wanted: np.ndarray) -> None:
    hold(conversation, talk_with(guarded, bundles, wanted))


def test_clients_queue(end: End, bundles: Bundles, wanted: np.ndarray) -> None:
    """The second one is told its position, waits in vain, waits again, and gets its turn when the first has ended."""
    first, second = (talk_with(end, bundles, wanted) for _ in range(2))
    loaded(first, files=True)
    assert second.wire.ask(HELLO, bytes(32) + text("second"))[0] is None
    second.wire.send(TURN, u32(50))
    assert second.wire.reply(TURN) == (None, u32(1))
    assert second.wire.reply(TURN)[0] == BUSY
    second.wire.send(TURN, u32(20_000))
    assert second.wire.reply(TURN) == (None, u32(1))
    assert first.wire.ask(BYE)[0] is None
    assert second.wire.reply(TURN) == (None, u32(0))
    assert second.wire.ask(TURN, u32(0)) == (None, u32(0))
    second.wire.stream.close()


def test_nothing_that_is_sent_ends_it(end: End, bundles: Bundles, wanted: np.ndarray) -> None:
    """Frames whose heads and payloads are chance; afterwards the end answers as ever."""
    chance = random.Random(17)
    for _ in range(40):
        talk = talk_with(end, bundles, wanted)
        with contextlib.closing(talk.wire.stream), contextlib.suppress(OSError, struct.error, AssertionError):
            assert talk.wire.ask(HELLO, bytes(32) + text("chance"))[0] is None
            if chance.random() < 0.5:
                talk.wire.ask(TURN, u32(5000))
            for _ in range(6):
                talk.wire.ask(chance.randrange(24), chance.randbytes(chance.choice((0, 4, 8, 24, 36, 60, 4100))))
    hold(CONVERSATIONS[0], talk_with(end, bundles, wanted))


def trapping(folder: Path, javascript: Any) -> dict[str, bytes]:
    """A bundle whose only kernel is one that traps, of those that the fuzzer of the runtime builds."""
    module = (javascript.build(folder) / "kernels.wasm").read_bytes()
    entry = {"bytes": len(module), "hash": hash64(module), "static_bytes": 131072}
    rows = {
        "abi": 1, "model": "fuzz", "library": "model.wasm", "arena": {"bytes": 64}, "scratch_bytes": 64,
        "target": {"triple": "wasm32-freestanding", "pointer_bits": 32, "cpu_features": []},
        "files": {"params.bin": {"bytes": 0, "hash": hash64(b"")}, "model.wasm": entry},
        "kernels": [{"name": name} for name in ("a", "b", "c", "fails", "traps")], "values": [], "inputs": [],
        "outputs": [], "nodes": [{"name": "n", "kernel": 4, "in": [], "out": [], "tasks": 2}],
    }  # fmt: skip
    rest = json.dumps(rows)[1:].encode()
    graph = f'{{"sterna":1,"hash":"{hash64(rest)}",\n'.encode() + rest
    return {"graph.json": graph, "model.wasm": module, "params.bin": b""}


def test_a_kernel_that_crashes(tmp_path: Path, wanted: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs the model, and nothing else: the client loads the next one."""
    monkeypatch.syspath_prepend(ROOT / "fuzz")
    javascript = importlib.import_module("javascript")
    again = Conversation(
        "a trap",
        (Step(RUN, status=CRASHED), Step(RUN, status=STATE), Step(LOAD, load_of()), Step(RUN, status=CRASHED)),
    )
    files = trapping(tmp_path, javascript)  # made before the connection, which a server closes when nothing comes
    with node(False) as end:
        talk = Talk(Wire(SocketStream(end.port)), files, FEED, wanted, end.name)
        loaded(talk, files=True)
        hold(again, talk)


@contextlib.contextmanager
def impatient_node() -> Iterator[End]:
    program = [need("node", "is a device"), "--input-type=module", "-e", _IMPATIENT]
    with listening("javascript", program) as end:
        yield end


@pytest.mark.parametrize("impatient", [impatient_node, functools.partial(in_java, False, "300")], ids=["node", "java"])
def test_who_stops_within_a_frame_is_hung_up_on(impatient: Callable[[], AbstractContextManager[End]]) -> None:
    """Nobody's connection stays open for nothing: a head without its payload, and no HELLO at all."""
    with impatient() as end:
        for begun in (b"", b"half a head"[:6], HEAD.pack(200, 1, HELLO, 1) + bytes(40)):
            stream = SocketStream(end.port)
            stream.send(begun)
            assert Wire(stream, 0).reply(0) == (SLOW, b"a frame began and did not end in time")
            assert stream.receive(1) == b""


@pytest.mark.parametrize("end", [name for name in ENDS if name != "page"], indirect=True)  # a page dials out
def test_a_crowd_of_strangers_does_not_end_a_device(end: End) -> None:
    """Whoever reaches the port may connect; more than 32 are hung up on, and once they are gone others are served."""
    crowd = [SocketStream(end.port) for _ in range(40)]
    try:
        assert crowd[-1].receive(1) == b""
    finally:
        for stranger in crowd:
            stranger.close()
    for _ in range(100):  # they leave one by one
        with contextlib.closing(SocketStream(end.port)) as stream, contextlib.suppress(struct.error, OSError):
            status, _ = Wire(stream).ask(HELLO, bytes(32) + text("late"))
            assert status is None
            return
        time.sleep(0.1)
    pytest.fail("nobody is served any more")


_IMPATIENT = f"""
import {{ listen }} from "{NODE.parent / "node.js"}";
const {{ port }} = await listen({{ port: 0, slow: 300 }});
console.log(`rpc://127.0.0.1:${{port}}`);
"""


def test_no_page_is_said() -> None:
    """Who connects while no page is open hears so."""
    with relay(patience=0.1) as server:
        stream = SocketStream(server.port)
        assert b"no page is open" in stream.receive(200)


def test_a_page_is_served_by_the_command(tmp_path: Path) -> None:
    """`sterna rpc serve --web`, a browser, and `sterna run --on rpc://...` beside them."""
    browser = need("chromium", "a page of it is a device")
    bundle = compile_to(tmp_path / "digits", MODEL, "browser", generator="llvm")
    words = [sys.executable, "-m", "sterna", "rpc", "serve", "--web", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stderr is not None
        found = re.search(r"open (\S+) in .* device (rpc://\S+)$", program.stderr.readline())
        try:
            assert found is not None
            with browsing(browser, found[1]):
                done = CliRunner().invoke(sterna_program, ["run", str(bundle), "--on", found[2], "--random", "--json"])
                assert done.exit_code == 0, done.output
                assert json.loads(done.stdout)["runs"] == 1
                refused = CliRunner().invoke(sterna_program, ["rpc", "serve", "--web", "--quota", "1M"])
                assert "E0002" in refused.output
        finally:
            program.send_signal(signal.SIGINT)
    assert program.returncode == 0
