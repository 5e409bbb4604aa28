"""The server of `sterna serve` under hostile requests, over raw sockets.

A child serves a folder in which some things must never come out: a hidden file, a link that leads outside. Clients send
requests drawn from a grammar and damaged, in pieces, and end as clients do that are cut off, slow or silent. What may
not happen: a word on the child's standard error, an answer of 5xx but for 505, a secret or a path of this machine in an
answer, a connection or a thread that is held after its time, the child's death.

A case is a line of JSON that says how the client behaves, then the bytes that it sends.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from frame import Budget, Finding, Fuzzer

SECRET = b"the canary that must not be served"
REQUEST_SECONDS, MARGIN_SECONDS = 1.0, 4.0
#: Cases between two looks at threads and memory, and what there may be of both.
BATCH, MOST_THREADS, MOST_BYTES = 400, 4, 1 << 30

METHODS = [*["GET"] * 4, "HEAD", "POST", "PUT", "OPTIONS", "TRACE", "CONNECT", "get", "__init__", "G\0T", ""]
PIECES = [
    "index.html", "inner", "memory", "file", "..", ".", "%2e%2e", "%2E.", "%c0%ae%c0%ae", "..%2f", "..\\", "%5c..",
    ".hidden", "%2ehidden", "link", "folder", "secret", "a" * 300, "%00", "%0d%0aX: y", "%", "%zz", "%f0%9f%90%a6",
    "\u00e9", "C:", "NUL", "file::$DATA", "index.html.", "*", "", "?x=1", "#x", ";", "http://localhost", "/etc/passwd",
    "proc/self/environ",
]  # fmt: skip
VERSIONS = [*["HTTP/1.1"] * 4, "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.99999999999", "HTTP", "", "HTTP/1.1 x"]
HEADERS = [
    "Host: localhost", "Host: localhost:8000", "Host: 127.0.0.1", "Host: example.com", "Host:", "Connection: close",
    "Connection: keep-alive", "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999",
    "Content-Length: 0", "Transfer-Encoding: chunked", "Expect: 100-continue", "Range: bytes=0-1", "Range: bytes=-1,5-",
    "Upgrade: websocket", "X: " + "y" * 5000, ": empty", "no colon", " folded", "Accept-Encoding: gzip",
    "If-None-Match: *", "Sec-Fetch-Site: cross-site", "\u00e9: \u00e9",
]  # fmt: skip
#: How a client ends: reads to the end once it has said that no more comes, or without; goes; resets; is slow.
ENDS = [*["read"] * 400, *["close"] * 30, *["reset"] * 30, *["trickle"] * 3, "wait"]


def make_case(number: int, seed: int) -> bytes:
    """The case of a number: the same for the same seed."""
    draw = random.Random(f"{seed} {number}")
    sent = b"".join(_request(draw) for _ in range(draw.choice([1, 1, 1, 2, 5])))
    if draw.random() < 0.4:
        sent = _damaged(sent, draw)
    return json.dumps({"end": draw.choice(ENDS), "pieces": draw.choice([1, 1, 1, 2, 7])}).encode() + b"\n" + sent


def _request(draw: random.Random) -> bytes:
    target = "/" + "/".join(draw.choice(PIECES) for _ in range(draw.choice([0, 1, 1, 2, 3, 40])))
    if draw.random() < 0.05:
        target = draw.choice(PIECES)
    headers = [draw.choice(HEADERS) for _ in range(draw.choice([0, 1, 2, 5, 120]))]
    if draw.random() < 0.7:
        headers = ["Host: localhost", *(h for h in headers if not h.startswith("Host"))]
    ending = draw.choice(["\r\n", "\r\n", "\r\n", "\n", "\r"])
    lines = [f"{draw.choice(METHODS)} {target} {draw.choice(VERSIONS)}", *headers, "", ""]
    body = draw.choice(["", "", "", "hello", "5\r\nhello\r\n0\r\n\r\n", "\0" * 3000])
    return (ending.join(lines) + body).encode()


def _damaged(data: bytes, draw: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(draw.choice([1, 1, 3, 20])):
        at = draw.randrange(len(result) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(result):
            result[at] = draw.randrange(256)
        elif kind == 1:
            result[at:at] = bytes(draw.randrange(256) for _ in range(draw.choice([1, 4, 200])))
        elif kind == 2:
            del result[at : at + draw.choice([1, 5, 100])]
        elif kind == 3:
            result[at:at] = result[: draw.randrange(len(result) + 1)]
        else:
            del result[at:]
    return bytes(result[:200_000])


def make_site(folder: Path) -> Path:
    """The folder that is served, with what must not come out beside and in it."""
    site = folder / "site"
    (site / "inner").mkdir(parents=True)
    (site / "index.html").write_text("page")
    (site / "file").write_bytes(b"file " * 50_000)
    (site / "inner" / "index.html").write_text("inner")
    for secret in (folder / "secret", site / ".hidden", site / "inner" / ".hidden"):
        secret.write_bytes(SECRET)
    (folder / "other").mkdir()
    (folder / "other" / "secret").write_bytes(SECRET)
    with contextlib.suppress(OSError):  # Windows may forbid links
        (site / "link").symlink_to(folder / "secret")
        (site / "folder").symlink_to(folder / "other")
    return site


class Server:
    """The child: it is started again after it died."""

    def __init__(self, folder: Path, script: Path = Path(__file__)):
        self.folder, self.script = folder, script
        self.site, self.log = make_site(folder), folder / "stderr"
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        self.close()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(self.script), str(self.site)], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def status(self, key: str) -> int:
        """A number that Linux knows of the child; 0 elsewhere."""
        assert self.process is not None
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(rf"^{key}:\s*(\d+)", text, re.M)
        return int(found[1]) if found else 0

    def execute(self, data: bytes) -> list[Finding]:
        """Plays one case, and says what the answer or the child's state shows."""
        head, _, sent = data.partition(b"\n")
        manner = json.loads(head)
        start = time.monotonic()
        try:
            answer = play(self.port, sent, manner["end"], manner["pieces"])
        except TimeoutError:
            return [Finding("hang", f"no end after {time.monotonic() - start:.1f} s", data)]
        except ConnectionRefusedError:
            answer = b""
        found = [Finding("wrong", text, data) for text in judge(answer, self.folder)]
        return found + self.state(data)

    def state(self, data: bytes) -> list[Finding]:
        """What the child said, if it did or died."""
        assert self.process is not None
        code = self.process.poll()
        said = self.log.read_text("utf-8", "replace") if self.log.stat().st_size else ""
        if code is None and not said:
            return []
        self.start()
        return [Finding("crash" if code is not None else "uncaught", f"status {code}: {said[-2000:]}", data)]

    def rest(self, data: bytes) -> list[Finding]:
        """After a batch: the page is served, memory is small, and in time no thread is left."""
        good = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        found = []
        try:
            if not play(self.port, good, "read", 1).endswith(b"page"):
                found.append(Finding("wrong", "the page is not served any more", data))
        except OSError as problem:
            found.append(Finding("hang", f"the page is not served any more: {problem!r}", data))
        end = time.monotonic() + REQUEST_SECONDS + MARGIN_SECONDS
        while self.status("Threads") > MOST_THREADS and time.monotonic() < end:
            time.sleep(0.05)
        if (threads := self.status("Threads")) > MOST_THREADS:
            found.append(Finding("hang", f"{threads} threads are held", data))
        if (memory := 1024 * self.status("VmRSS")) > MOST_BYTES:
            found.append(Finding("memory", f"{memory:,} bytes", data))
        return [*found, *self.state(data)]


def play(port: int, sent: bytes, end: str, pieces: int) -> bytes:
    """Sends bytes as a client of some manner, and returns what it is answered.

    Raises:
        TimeoutError: the server neither answers to the end nor hangs up.
    """
    answer = b""
    deadline = time.monotonic() + REQUEST_SECONDS + MARGIN_SECONDS
    with socket.create_connection(("127.0.0.1", port), timeout=MARGIN_SECONDS) as client:
        try:
            _send(client, sent, end, pieces)
            if end == "close":
                return answer
            if end == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                return answer
            if end == "read":
                client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 16):
                answer += part
                client.settimeout(max(0.01, deadline - time.monotonic()))
        except TimeoutError:
            raise
        except OSError:  # the server hung up before all was sent or read
            pass
    return answer


def _send(client: socket.socket, sent: bytes, end: str, pieces: int) -> None:
    if end == "trickle":
        for byte in sent[:100]:
            client.sendall(bytes([byte]))
            time.sleep(0.002)
        return
    step = -(-len(sent) // pieces) or 1
    for at in range(0, len(sent), step):
        client.sendall(sent[at : at + step])


def judge(answer: bytes, folder: Path) -> list[str]:
    """What is wrong with the bytes of one connection."""
    wrong = [
        f"status {status}" for status in re.findall(rb"HTTP/1\.\d (5\d\d) ", answer) if status != b"505"
    ]  # bodies of ours hold no such line
    if SECRET in answer:
        wrong.append("a file that must not be served is")
    if os.fsencode(folder) in answer:
        wrong.append("a path of this machine is in the answer")
    if answer and not answer.startswith(b"HTTP/1.1 "):
        wrong.append(f"no answer of HTTP: {answer[:80]!r}")
    return wrong


def _all(server: Server, cases: Sequence[bytes], recent: list[bytes]) -> list[Finding]:
    found: list[Finding] = []
    for data in cases:
        recent.append(data)
        found += server.execute(data)
    return found


def fuzz(budget: Budget, seed: int, work: Path) -> Sequence[Finding]:
    server = Server(work)
    found: list[Finding] = []
    try:
        found += _all(server, FUZZER.corpus(), [])
        budget.count(len(FUZZER.corpus()))
        number = 0
        while not budget.spent:
            recent: list[bytes] = []
            while len(recent) < BATCH and not budget.spent:
                found += _all(server, [make_case(number, seed)], recent)
                number += 1
                budget.count()
            # What shows only after a while is blamed on the last case: the seed and the batch lead to the others.
            found += server.rest(recent[-1] if recent else b'{"end":"read","pieces":1}\n')
    finally:
        server.close()
    return found


def replay(data: bytes, work: Path) -> Sequence[Finding]:
    server = Server(work)
    try:
        return [*server.execute(data), *server.rest(data)]
    finally:
        server.close()


FUZZER = Fuzzer(
    name="serve",
    about="hostile requests and clients against the server of `sterna serve`",
    fuzz=fuzz,
    replay=replay,
)


def main(site: Path) -> None:
    """The child."""
    from sterna.web.server import Limits, make_server  # noqa: PLC0415 (only the child needs it)

    limits = Limits(REQUEST_SECONDS, REQUEST_SECONDS, connections=16)
    with make_server({"": site, "memory": {"file": b"memory"}}, port=0, limits=limits) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
