"""The engines of JavaScript on this machine that run bundles for browsers: Node, and Chromium without a window.

The functions of `runtime.library`, as of any emulator (`runtime.remote`): `runtime_js/src/serve.js` answers, through
standard streams or from a page over a WebSocket.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from http.server import ThreadingHTTPServer
from pathlib import Path

from sterna.codegen.render import resource
from sterna.errors import error
from sterna.runtime.remote import Functions, Model
from sterna.scratch import temporary_directory
from sterna.web.files import INDEX, Root
from sterna.web.server import HOST, make_server
from sterna.web.socket import WebSocket
from sterna_runtime.advice import Advice, Option
from sterna_runtime.errors import SternaError
from sterna_runtime.reader import read_graph
from sterna_runtime.refusals import Place

_PAGE = b"""<!doctype html>
<title>sterna</title>
<link rel="icon" href="data:,">
<script type="module" src="/sterna/serve-page.js"></script>
"""
#: Without a window, and without what a browser asks the network for by itself.
_FLAGS = (
    "--headless=new", "--no-first-run", "--no-default-browser-check", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-quic",
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--mute-audio",
)  # fmt: skip
#: For bundles that need no GPU; for those that do; and where there is none that Chromium could reach: SwiftShader.
_NO_GPU = ("--disable-gpu",)
_GPU = ("--enable-unsafe-webgpu", "--enable-features=Vulkan")
_SOFTWARE = (*_GPU, "--use-webgpu-adapter=swiftshader", "--use-vulkan=swiftshader", "--disable-vulkan-surface")
_CHUNK = 1 << 20
_SECONDS_TO_OPEN = 60


@dataclass(frozen=True)
class Engine:
    """A program that runs bundles for browsers.

    Args:
        title: in sentences.
        programs: what it may be called; variable: of the environment, names another one.
        fix: how it is installed.
        start: the functions of such a program.
        place: what there is.
    """

    title: str
    programs: tuple[str, ...]
    fix: str
    start: Callable[[str], Functions]
    place: Place
    variable: str = ""

    def program(self) -> str | None:
        named = os.environ.get(self.variable, "")
        return next(filter(None, map(shutil.which, (named,) if named else self.programs)), None)

    def why_not(self) -> str | None:
        """Why it runs nothing here; None where it does."""
        return f"{self.title} is not installed" if self.program() is None else None

    def functions(self) -> Functions:
        """Those of `runtime.library`, of bundles in it.

        Raises:
            SternaError: E0004, it is not installed.
        """
        program = self.program()
        if program is None:
            raise error("E0004", f"{self.title} is not installed: it runs bundles for browsers here", fix=self.fix)
        return self.start(program)


_BROWSER = Advice("compile the model with ", Option("target", "browser"))
_NODE = Place((), Advice("leave out ", Option("on")), _BROWSER)
_CHROMIUM = Place(
    ("webgpu",), Advice("compile the model with ", Option("target", "webgpu"), ", which pages run"), _BROWSER
)


@lru_cache
def _node(program: str) -> Functions:
    return Functions([program, str(resource("runtime_js") / "src" / "serve-node.js")], "Node.js", _NODE)


@lru_cache
def _chromium(program: str) -> Functions:
    return BrowserFunctions([program], "Chromium", _CHROMIUM)


#: By the names that --on and targets have for them.
ENGINES = {
    "node": Engine("Node.js", ("node",), "install Node.js 18 or later", _node, _NODE),
    "chromium": Engine(
        "Chromium", ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
        "apt-get install chromium, or name the program: CHROMIUM=/path/to/chrome", _chromium, _CHROMIUM, "CHROMIUM",
    ),
}  # fmt: skip


def browser_command(program: str, address: str, folder: str, gpu: bool = False) -> list[str]:
    """How a browser shows a page without a window; `folder`: for its own files; `gpu`: whether the page needs one."""
    # The sandbox of Chromium refuses root; pages are our own.
    plain = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    own = (_GPU if _has_gpu() else _SOFTWARE) if gpu else _NO_GPU
    return [program, *_FLAGS, *own, *plain, f"--user-data-dir={folder}", address]


def _has_gpu() -> bool:
    """Whether Chromium may find a GPU: on Linux, one that programs can render with."""
    return not sys.platform.startswith("linux") or any(Path("/dev/dri").glob("renderD*"))


def _needs_gpu(bundle: Path) -> bool:
    """Whether a bundle was compiled for WebGPU; one that cannot be read is refused by the page."""
    with contextlib.suppress(SternaError):
        return any(device["kind"] == "webgpu" for device in read_graph(bundle).get("devices", ()))
    return False


@dataclass
class PageModel(Model):
    """A model in a page; `server`: of the page, `folder`: the browser's own."""

    server: ThreadingHTTPServer | None = None
    folder: tempfile.TemporaryDirectory[str] | None = None

    def end(self) -> bytes:
        if self.ended is not None:
            return self.ended
        if self.process.poll() is None:
            self.process.terminate()
        said = super().end()
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
        if self.folder is not None:
            self.folder.cleanup()
        return said


class BrowserFunctions(Functions):
    """Those of `runtime.library`, of models that each run in a browser of their own."""

    def sterna_cpu_has(self, feature: bytes) -> int:
        return -1

    def _opened(self, path: bytes, threads: int) -> Model:
        ours, theirs = socket.socketpair()
        bundle = Path(os.fsdecode(path)).resolve()
        line = _Line(theirs)
        roots: dict[str, Root] = {
            "": {INDEX: _PAGE},
            "sterna": resource("runtime_js") / "src",
            "bundle": bundle,
        }
        server = make_server(roots, port=0, talk=line.talk)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        folder = temporary_directory("page")
        try:
            address = f"http://{HOST}:{server.server_address[1]}/{INDEX}?threads={threads}"
            process = self._browser(address, folder.name, _needs_gpu(bundle))
        except BaseException:
            server.shutdown()
            server.server_close()
            folder.cleanup()
            ours.close()
            theirs.close()
            raise
        threading.Thread(target=line.watch, args=(process,), daemon=True).start()
        process.stdin, process.stdout = ours.makefile("wb"), ours.makefile("rb")
        ours.close()
        return PageModel(process, self._where, server=server, folder=folder)

    def _browser(self, address: str, folder: str, gpu: bool) -> subprocess.Popen[bytes]:
        """The browser, showing a page. Raises Failure."""
        words = browser_command(self._command[0], address, folder, gpu)
        return self._started(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class _Line:
    """Carries bytes between a WebSocket and a socket of this process; the end of either is the end of both."""

    def __init__(self, end: socket.socket):
        self._end = end
        self._taken = threading.Lock()

    def talk(self, page: WebSocket) -> None:
        if not self._taken.acquire(blocking=False):
            return  # one page talks
        threading.Thread(target=self._out, args=(page,), daemon=True).start()
        with contextlib.suppress(OSError, SternaError):
            while (message := page.receive()) is not None:
                self._end.sendall(message)
        self._hang_up()

    def _out(self, page: WebSocket) -> None:
        with contextlib.suppress(OSError):
            while data := self._end.recv(_CHUNK):
                page.send(data)
            page.close()

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """Hangs up once the browser has ended; one that opens no page is ended."""
        try:
            process.wait(_SECONDS_TO_OPEN)
        except subprocess.TimeoutExpired:
            if not self._taken.locked():
                process.terminate()
            process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
