"""A connection to a device: the socket, HELLO and PROOF, requests and their replies."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Sequence

from sterna.errors import SternaError, error
from sterna.rpc import frames
from sterna.rpc.frames import ERROR, HEAD, NONCE_BYTES, REPLY, Kind, Request, Status
from sterna.version import __version__

#: A device answers within its limit of a request; so much longer may the network take.
_GRACE = 30.0
#: Bytes that are copied to be sent together with others.
_MOST_JOINED = 1 << 14
#: How every message begins of a connection that has ended.
LOST = "the connection to the device is lost: "
_FIXES = {
    "E0801": "see that it is the port of `sterna rpc serve` and no other program's; a device has 32 clients at most",
    "E0802": "set STERNA_RPC_TOKEN, or STERNA_RPC_TOKEN_FILE to the file that the server was started with",
    "E0803": "wait longer, or use another device; `sterna rpc doctor` says how many wait",
    "E0804": "install the same version of sterna on both machines",
    "E0806": "start the server with a greater --quota, or with --scratch on a larger disk",
}


class Refused(Exception):  # noqa: N818  a status, which the caller of a function gets
    """What a device answered instead: a status of `frames.Status` or of the C runtime, and its message."""

    def __init__(self, status: int, message: str):
        super().__init__(status, message)
        self.status, self.message = status, message

    def as_error(self, where: str) -> SternaError:
        """The same for a user. A status of the runtime's is not asked for here."""
        code = frames.code_of(self.status)
        return error(code, self.message, where, fix=_FIXES.get(code))


class Link:
    """A connection whose client is known to the device, and the device to the client.

    One request at a time, or several at once whose replies follow in their order. A connection that breaks, or a reply
    that is none, ends it: every later request is `Refused` with what happened.

    Args:
        place: as a user wrote it, for messages.
        patience: seconds that a reply may take.
    """

    #: After these statuses nothing more can be asked.
    fatal = frames.FATAL

    def __init__(self, place: str, connected: socket.socket, token: bytes | None, patience: float):
        self.place, self.patience = place, patience
        self._socket = connected
        self._lock = threading.RLock()
        self._ids = 0
        self._ended: str | None = None
        connected.settimeout(patience)
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._introduce(token)

    def _introduce(self, token: bytes | None) -> None:
        own = secrets.token_bytes(NONCE_BYTES)
        hello = Request(Kind.HELLO, own + frames.text(f"sterna {__version__}"), 4 + NONCE_BYTES)
        try:
            reply = self.ask(hello)
            if len(reply) != 4 + NONCE_BYTES:
                raise self._end("its first reply is no HELLO")
        except Refused as problem:
            if problem.status != Status.LOST:
                raise
            why = problem.message.removeprefix(LOST)
            raise Refused(Status.ABSENT, f"what listens there does not answer as a device: {why}") from None
        other = reply[4:]
        if not reply[0] & 1:
            return
        if not token:
            self.close()
            raise Refused(Status.DENIED, "the device demands a token, and none was given")
        shown = self.ask(Request(Kind.PROOF, frames.proof("client", token, other, own), 32))
        if not hmac.compare_digest(shown, frames.proof("server", token, own, other)):
            self.close()
            raise Refused(Status.DENIED, "the other side does not know the token: it is not the device")

    # ---- Requests ----

    def ask(self, request: Request) -> bytes:
        """The payload of the reply. Raises Refused."""
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Request]) -> list[bytes]:
        """The payloads of the replies to requests that are sent at once.

        All of them are answered, also where one is refused; then Refused is raised, of the first.
        """
        with self._lock:
            first = self._ids
            self._ids = (first + len(requests)) % (1 << 32)
            parts: list[bytes | memoryview] = []
            for number, request in enumerate(requests):
                size = len(request.payload) + len(request.tensor)
                head = HEAD.pack(size, frames.VERSION, request.kind, (first + number) % (1 << 32))
                parts += [head + request.payload, request.tensor]
            self._send(parts)
            refused: Refused | None = None
            replies: list[bytes] = []
            for number, request in enumerate(requests):
                try:
                    replies.append(self._reply(request, (first + number) % (1 << 32)))
                except Refused as problem:
                    if problem.status in frames.FATAL:
                        raise problem if refused is None else refused from None
                    refused = refused or problem
            if refused is not None:
                raise refused
            return replies

    def wait_for_turn(self, seconds: float, told: Callable[[int], None] | None = None) -> None:
        """Waits until the device is this client's alone; `told` gets its position in the queue whenever it changes.

        Raises:
            Refused: BUSY, it did not come in time.
        """
        with self._lock:
            milliseconds = min(max(0, round(seconds * 1000)), (1 << 32) - 1)
            request = Request(Kind.TURN, struct.pack("<I", milliseconds), 4)
            number, self._ids = self._ids, (self._ids + 1) % (1 << 32)
            self._socket.settimeout(seconds + _GRACE)
            try:
                self._send([HEAD.pack(4, frames.VERSION, request.kind, number), request.payload])
                while position := int.from_bytes(self._reply(request, number), "little"):
                    if told is not None:
                        told(position)
            finally:
                with contextlib.suppress(OSError):
                    self._socket.settimeout(self.patience)

    def be_patient(self, seconds: float) -> None:
        """How long a request may take on the device; a reply may take a little longer."""
        self.patience = seconds + _GRACE
        with contextlib.suppress(OSError):
            self._socket.settimeout(self.patience)

    # ---- Bytes ----

    def _send(self, parts: list[bytes | memoryview]) -> None:
        if self._ended is not None:
            raise Refused(Status.LOST, self._ended)
        try:
            small: list[bytes | memoryview] = []  # is sent at once; what is large is not copied for that
            for part in parts:
                if len(part) <= _MOST_JOINED:
                    small.append(part)
                    continue
                self._socket.sendall(b"".join(small))
                self._socket.sendall(part)
                small.clear()
            self._socket.sendall(b"".join(small))
        except OSError as problem:
            # What the device said before it closed the connection tells more, where it can still be read.
            with contextlib.suppress(Refused, OSError):
                self._socket.settimeout(1)
                self._reply(Request(Kind.BYE), None)
            raise self._end(_reason(problem)) from None

    def _reply(self, request: Request, number: int | None) -> bytes:
        head = self._read(HEAD.size)
        length, _, kind, _ = HEAD.unpack(head)
        if length > (frames.MOST_ERROR_BYTES if kind == ERROR else request.most):
            raise self._end("a reply is longer than what was asked for")
        return self.checked(head, self._read(length), request, number)

    def checked(self, head: bytes, payload: bytes, request: Request, number: int | None) -> bytes:
        """The payload of a frame that has come, if it is the reply to a request. Raises Refused."""
        length, version, kind, answered = HEAD.unpack(head)
        refused = kind == ERROR
        if refused and length >= 8:
            status, size = struct.unpack_from("<iI", payload)
            message = payload[8 : 8 + size].decode("utf-8", "replace")
            if version != frames.VERSION:
                message = f"{message} (here it is {frames.VERSION})"
            if status in self.fatal:
                self._end(message)
            raise Refused(status, message)
        if version != frames.VERSION or refused or kind != (REPLY | request.kind) or answered != number:
            raise self._end("a reply is not one to what was asked")
        return payload

    def _read(self, size: int) -> bytes:
        data = bytearray(size)
        view, done = memoryview(data), 0
        try:
            while done < size:
                got = self._socket.recv_into(view[done:])
                if got == 0:
                    raise self._end("it closed the connection")
                done += got
        except OSError as problem:
            raise self._end(_reason(problem)) from None
        return bytes(data)

    # ---- The end ----

    def _end(self, why: str) -> Refused:
        """Nothing more can be asked; the reason for whoever asks."""
        self._ended = self._ended or LOST + why
        self._hang_up()
        return Refused(Status.LOST, self._ended)

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    @property
    def ended(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._ended is not None

    def close(self) -> None:
        """Says BYE and closes."""
        if self._ended is None:
            with contextlib.suppress(OSError, Refused):
                self._socket.settimeout(1)
                self.ask(Request(Kind.BYE))
        self._end("it was closed here")


def _reason(problem: OSError) -> str:
    if isinstance(problem, TimeoutError):
        return "it did not answer in time"
    return problem.strerror or str(problem) or os.strerror(problem.errno or 0)
