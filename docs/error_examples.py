"""One real message for every error code: what was typed, and what Sterna said. `docs/errors.py` makes the page of them.

An example is a command line or a few lines of Python, run in a folder with `digits.onnx`, its bundle `digits/` and
the files that the example prepares. Where the cause lies outside of the files (a package that is missing, a full disk),
the example stands in for it while it runs.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper

import sterna
from sterna.firmware.machines import MACHINES
from sterna.ir.integer import Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.loops import program as P
from sterna.rpc.frames import Kind, Status
from sterna.targets.intrinsics import IntrinsicDeclaration, OperandDeclaration, declared_intrinsic
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from sterna_runtime import building, hash64, library, recipe
from support.fake_device import FakeDevice, connected_to, refusal

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"


def nothing(_folder: Path) -> None:
    """No files."""


@dataclass(frozen=True)
class Example:
    """`shown` begins with "$ " for a command line; `prepare` writes files, `during` holds while it runs.

    `run` is for what is neither a command nor Python: it returns the message.
    """

    shown: str
    prepare: Callable[[Path], Any] = nothing
    during: Callable[[], AbstractContextManager[Any]] = nullcontext
    run: Callable[[], str] | None = None


# ---- devices ----

RUN_THERE = "$ sterna run digits --on rpc://pi:9190 --random"
#: What a device answers to a request, by the code that stands for it; the messages are those of runtime_c/rpc/.
REFUSED: dict[str, tuple[Kind, Status, str]] = {
    "E0802": (Kind.HELLO, Status.DENIED, "the token is not the device's"),
    "E0803": (Kind.TURN, Status.BUSY, "another client uses the device, and its turn did not end in time"),
    "E0804": (Kind.HELLO, Status.VERSION, "this server speaks version 1 of the protocol"),
    "E0805": (Kind.LOAD, Status.IDLE, "there was no request for long, and others wait"),
    "E0806": (
        Kind.HAVE,
        Status.FULL,
        "the disk of the device is full (a file cannot be written): No space left on device",
    ),
    "E0807": (Kind.LOAD, Status.CRASHED, "a kernel ended its process: Segmentation fault (signal 11)"),
    "E0808": (Kind.LOAD, Status.HUNG, "the request took longer than 60000 ms, and was ended"),
    "E0809": (Kind.HAVE, Status.HASH, "what was sent has another hash; it was dropped"),
    "E0810": (Kind.LOAD, Status.SYSTEM, "the device has no process left"),
}


def device(kind: Kind, status: Status, said: str) -> AbstractContextManager[FakeDevice]:
    """A device that refuses requests of that kind."""
    return connected_to(FakeDevice({kind: refusal(status, said)}))


# ---- files ----


def model(text: str, name: str = "model.onnx", **weights: Any) -> Callable[[Path], None]:
    """Writes an ONNX model in the text form of `onnx.parser`: signature and nodes, and weights by name."""

    def write(folder: Path) -> None:
        made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "com.example" : 1]>\nm {text}')
        made.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items())
        onnx.save(made, folder / name)

    return write


def text(name: str, content: str) -> Callable[[Path], Any]:
    """Writes a text file."""
    return lambda folder: (folder / name).write_text(content, "utf-8")


def array(name: str, values: Any, **arrays: Any) -> Callable[[Path], None]:
    """Writes an array, or an archive of arrays."""
    return lambda folder: np.savez(folder / name, **arrays) if arrays else np.save(folder / name, values)


def graph(old: str, new: str, version: int | None = None) -> Callable[[Path], None]:
    """Changes a word of the bundle's graph.json, and its hash with it; or the version of its format."""

    def edit(folder: Path) -> None:
        place = folder / "digits" / "graph.json"
        first, _, rest = place.read_text("utf-8").partition("\n")
        changed = re.sub(old, new, rest)
        written = json.loads(first + rest)["sterna"] if version is None else version
        head = f'{{"sterna":{written},"hash":"{hash64(changed.encode())}",\n'
        place.write_bytes((head + changed).encode())

    return edit


def for_firmware(folder: Path) -> None:
    sterna.compile_to(folder / "digits-m4", DIGITS, "cortex-m4", generator="llvm")


@contextmanager
def small_board() -> Iterator[None]:
    """A board with less memory, on a machine that has zig alone."""
    board = dataclasses.replace(MACHINES["mps2-an386"], ram=(0x20000000, 36 << 10))
    only_zig = mock.patch("shutil.which", lambda name: None if "none-eabi" in name else name)
    with mock.patch.dict(MACHINES, {"mps2-an386": board}), only_zig:
        yield


def for_browsers(folder: Path) -> None:
    sterna.compile_to(folder / "digits-web", DIGITS, "browser", generator="llvm")


def two_sizes(folder: Path) -> None:
    for weights in ("fp16", "fp32"):
        sterna.compile_to(folder / f"digits-{weights}", DIGITS, "x86-64-v2", generator="llvm", weights=weights)


def opset_of_the_future(folder: Path) -> None:
    made = onnx.load(DIGITS)
    made.opset_import[0].version = 999
    onnx.save(made, folder / "model.onnx")


def without_its_data(folder: Path) -> None:
    made = onnx.load(DIGITS)
    onnx.save(made, folder / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    (folder / "model.data").unlink()


def complex_numbers(folder: Path) -> None:
    signature = [helper.make_tensor_value_info(n, TensorProto.COMPLEX64, [4]) for n in "xy"]
    node = helper.make_node("Identity", ["x"], ["y"], name="same")
    onnx.save(helper.make_model(helper.make_graph([node], "m", signature[:1], signature[1:])), folder / "model.onnx")


def control_flow(folder: Path) -> None:
    branch = "{} () => (float[4,4] {}) {{ {} = MatMul(x, {}) }}"
    branches = ", ".join(
        f"{key}_branch = {branch.format(key, out, out, weight)}"
        for key, out, weight in (("then", "a", "w"), ("else", "b", "v"))
    )
    cond = f"(float[4,4] x, bool c) => (float[4,4] y) {{ y = If(c) <{branches}> }}"
    model(cond, w=np.ones((4, 4), np.float32), v=np.zeros((4, 4), np.float32))(folder)
    array("samples.npz", None, x=np.ones((4, 4, 4), np.float32), c=np.array(True))(folder)


def images(count: int = 4) -> Any:
    """Pictures of digits, as samples to calibrate with."""
    place = ROOT / "compiler" / "sterna" / "demo" / "images"
    return np.concatenate([np.load(path).reshape(1, 1, 8, 8) for path in sorted(place.glob("*.npy"))[:count]])


SAMPLES = array("samples.npz", None, image=images())


# ---- circumstances ----


def refusing(place: str, problem: Exception) -> Callable[[], AbstractContextManager[Any]]:
    """A function of Sterna's that fails in this way."""
    return lambda: mock.patch(place, side_effect=problem)


@contextmanager
def without_pillow() -> Iterator[None]:
    with mock.patch.dict("sys.modules", {"PIL": None}):
        yield


@contextmanager
def without_ziglang() -> Iterator[None]:
    command = [sys.executable, "-c", "raise SystemExit('No module named ziglang')"]
    environment = {"STERNA_CACHE_DIR": str(Path.cwd() / "cache")}
    with mock.patch.object(building, "compile_command", return_value=command), mock.patch.dict(os.environ, environment):
        yield


@contextmanager
def incomplete_installation() -> Iterator[None]:
    place = Path.cwd() / "site-packages" / "sterna_runtime"
    with mock.patch.object(library, "_PACKAGE", place), mock.patch.object(building, "_PACKAGE", place):
        yield


@contextmanager
def onnxruntime_that_refuses() -> Iterator[None]:
    runtime = mock.MagicMock()
    runtime.InferenceSession.side_effect = RuntimeError("Could not find an implementation for Celu(12) node")
    versions = mock.patch("importlib.metadata.version", return_value="1.23.0")
    with mock.patch.dict(sys.modules, {"onnxruntime": runtime}), versions:
        yield


def port_in_use() -> AbstractContextManager[Any]:
    return mock.patch("socketserver.TCPServer.server_bind", side_effect=OSError(98, "Address already in use"))


# ---- programs and kernels ----


def freestanding_host() -> str:
    """What a C runtime says to a call that needs files, if it was built without an operating system."""
    runtime, built = ROOT / "runtime_c", Path.cwd() / library.library_name()
    command = recipe.compile_command(runtime, built, recipe.this_platform().target)
    port = next(word for word in command if word.startswith(str(runtime / "port")))
    command[command.index(port)] = str(runtime / "port" / "none.c")
    subprocess.run([*command, "-DSTERNA_PORT_NONE"], check=True, capture_output=True)
    freestanding, said, loaded = ctypes.CDLL(str(built)), library.CError(), ctypes.c_void_p()
    freestanding.sterna_load(b"digits", None, ctypes.byref(loaded), ctypes.byref(said))
    freestanding.sterna_status_code.restype = ctypes.c_char_p
    return f"error[{freestanding.sterna_status_code(said.status).decode()}]: {said.message.decode()}"


def doubled() -> Kernel:
    """y = 2 x, over a tensor between."""
    x = placeholder("x", (8,))
    mid = compute("mid", (8,), lambda i: x[i] + 1.0)
    return Kernel("doubled", (x,), (mid,), (compute("y", (8,), lambda i: mid[i] * 2.0),))


def beyond() -> Kernel:
    """Reads one element behind the end."""
    x = placeholder("x", (8,))
    return Kernel("beyond", (x,), (), (compute("y", (8,), lambda i: x[i + 1]),))


def reversed_in_place() -> P.Function:
    """Thread t writes x[7 - t] to x[t], of eight threads."""
    x = P.dense_buffer("x", "float32", (as_int(8),), OUTPUT)
    t = Symbol("t", 0, 7)
    last = E.Load("float32", tensor=x, indices=(7 - of(t),))
    body = P.For(t, as_int(8), "thread.x", P.Store(x, of(t), last))
    return P.Function("reversed", (), (), (x,), as_int(1), 0, body)


def stray_operand() -> P.Function:
    """An instruction of an accelerator on an input, which is not in its scratchpad."""
    operands = tuple(OperandDeclaration(name, "int8", "pad", (1,)) for name in "ay")
    vector_abs = IntrinsicDeclaration("vector.abs", "y[i] = abs(a[i])", (("i", 8),), operands, c="vabs($y, $a);")
    pad = Memory("pad", "block", bytes=64)
    x, y = (P.dense_buffer(name, "int8", (as_int(8),), scope) for name, scope in (("x", INPUT), ("y", pad)))
    part, result = (P.Slice(b, as_int(0), (1,), (8,)) for b in (x, y))
    body = P.seq(P.Alloc(y), P.Instruction(declared_intrinsic(vector_abs), result, (part,)))
    return P.Function("stray", (x,), (), (), as_int(1), 0, body)


def row_sums() -> Kernel:
    """Sums of the rows of a matrix."""
    x = placeholder("x", (10, 12))
    k = reduce_axis("k", 12)
    return Kernel("row_sums", (x,), (), (compute("y", (10,), lambda i: total(x[i, k], k)),))


#: A schedule that places a stage in a memory.
PLACED = (
    's = Schedule(kernel, memories=[Memory("pad", {})])\ns.compute_at("mid", "y", "i", "pad")\n'
    "program = finish(lower(s))"
)
EXAMPLES: dict[str, Example] = {
    "E0001": Example("$ sterna compile digits.onnx --taget browser"),
    "E0002": Example("$ sterna compile digits.onnx --dim batch"),
    "E0003": Example("$ sterna run digits --input image=picture.npy"),
    "E0004": Example("$ sterna run digits --input image=3.png", lambda f: (f / "3.png").touch(), without_pillow),
    "E0005": Example("$ sterna run digits --input image=short.bin", text("short.bin", "1234")),
    "E0006": Example("$ sterna run digits.onnx --random"),
    "E0007": Example("$ sterna run digits --random --output results.txt"),
    "E0008": Example("$ sterna verify digits.onnx --against interpreter --tolerance 0 --target x86-64-v2"),
    "E0009": Example("$ sterna verify digits.onnx --against onnxruntime", nothing, onnxruntime_that_refuses),
    "E0010": Example("$ sterna serve digits-web --port 8765", for_browsers, port_in_use),
    "E0011": Example("$ sterna report digits-fp16 digits-fp32 --fail-if-larger 2%", two_sizes),
    "E0101": Example("$ sterna compile model.onnx", text("model.onnx", "<!DOCTYPE html>")),
    "E0102": Example("$ sterna compile model.onnx", opset_of_the_future),
    "E0103": Example("$ sterna compile model.onnx", model("(float[4] x) => (float[4] y) { y = Add(x, nowhere) }")),
    "E0104": Example(
        "$ sterna compile model.onnx", model("(float[4] x) => (float[4] y) { y = com.example.Sparkle(x) }")
    ),
    "E0105": Example(
        "$ sterna compile model.onnx", model("(float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }")
    ),
    "E0106": Example("$ sterna compile digits.onnx --dim batch=1"),
    "E0107": Example(
        "$ sterna compile model.onnx",
        model("(float[2, 6] x, int64[2] shape) => (float[n, m] y) { y = Reshape(x, shape) }"),
    ),
    "E0108": Example(
        "$ sterna compile model.onnx", model("(float[2, 3] a, float[4] b) => (float[2, 4] y) { y = Add(a, b) }")
    ),
    "E0109": Example(
        "$ sterna compile model.onnx", model('(float[4] x) => (float[4] y) { y = Softmax <axis = "last"> (x) }')
    ),
    "E0110": Example("$ sterna compile model.onnx", without_its_data),
    "E0111": Example("$ sterna compile model.onnx", complex_numbers),
    "E0112": Example(
        "$ sterna compile model.onnx",
        model("(float[2147483648, 2147483648] x) => (float[2147483648, 2147483648] y) { y = Relu(x) }"),
    ),
    "E0113": Example(
        "$ sterna compile model.onnx",
        model(
            "(float[4] x) => (float[4] y) { y = Dropout(x, ratio, training) }", ratio=np.float32(0.5), training=np.True_
        ),
    ),
    "E0114": Example(
        "$ sterna compile model.onnx",
        model(
            "(float[4] x) => (uint8[4] y) { y = QuantizeLinear(x, scale, zero) }",
            scale=np.float32(0),
            zero=np.uint8(0),
        ),
    ),
    "E0115": Example(
        "$ sterna compile model.onnx --weights fp16",
        model("(float[8, 64] x) => (float[8, 64] y) { y = MatMul(x, w) }", w=np.full((64, 64), 1e6, np.float32)),
    ),
    "E0116": Example(
        "$ sterna compile model.onnx",
        model(
            "() => (float[n] y) { y = Range(start, limit, step) }",
            start=np.float32(0),
            limit=np.float32(1e12),
            step=np.float32(1),
        ),
    ),
    "E0117": Example("with memory_for():  # as `sterna.compile` does\n    np.zeros(1 << 62, np.uint8)"),
    "E0201": Example("$ sterna compile digits.onnx --target rasberrypi4"),
    "E0202": Example(
        "$ sterna compile digits.onnx --target board.toml",
        text("board.toml", 'extends = "cortex-m4"\nvector_bit = 64\n'),
    ),
    "E0203": Example("$ sterna compile digits.onnx --target raspberrypi4 --all-variants"),
    "E0204": Example("$ sterna compile digits.onnx --output digits.onnx"),
    "E0205": Example(
        PLACED.format('"block", bytes=64, address_space=3') + "\nc.generate([program], load_target('c99'), 'doubled')"
    ),
    "E0206": Example(
        "$ sterna compile digits.onnx --target small.toml",
        text(
            "small.toml",
            'extends = "cortex-m4"\n[[memories]]\nname = "sram"\nbytes = 2048\nreach = "device"\n'
            '[[memories]]\nname = "psram"\nbytes = 1024\nreach = "device"\nbytes_per_cycle = 1\n',
        ),
    ),
    "E0207": Example("$ sterna compile digits.onnx --target esp32 --max-stack 512"),
    "E0209": Example("$ sterna fit digits.onnx --board nrf52480"),
    "E0301": Example('saved.apply(kernel, [Step("levitate", "y", ("i",))])'),
    "E0302": Example('Schedule(kernel).split("y", "j", 4)'),
    "E0303": Example("lower(Schedule(kernel))"),
    "E0304": Example(
        's = Schedule(row_sums())\ns.cache_write("y")\ns.split("y", "i", 5)\n'
        's.compute_at("y_acc", "y", "i.o", "register")\nfinish(lower(s))'
    ),
    "E0305": Example("finish(lower(Schedule(beyond())))  # y[i] = x[i + 1]"),
    "E0306": Example("verify_threads(reversed_in_place())  # every thread reads what another one writes"),
    "E0307": Example(PLACED.format('"block", bytes=2')),
    "E0308": Example(PLACED.format('"block", "copy", bytes=4096')),
    "E0309": Example('verify(stray_operand())  # its declaration says `memory = "pad"`'),
    "E0401": Example(
        "building.build(sources)  # of a checkout, where ziglang is not installed", nothing, without_ziglang
    ),
    "E0402": Example("$ sterna compile digits.onnx --cc icx"),
    "E0403": Example("compile_c('int f(void) { return oops; }', load_target('x86-64-v2'))"),
    "E0404": Example(
        "target = load_target('x86-64-v2')\nlink_library([compile_c('int counter;', target)], target, 'model')"
    ),
    "E0405": Example("$ sterna run digits-m4 --on qemu:mps2-an386 --random", for_firmware, small_board),
    "E0501": Example("sterna.load('digits', threads=0)"),
    "E0502": Example("sterna.load('digits')", graph('"arena":{"bytes":\\d+', f'"arena":{{"bytes":{2**62}')),
    "E0503": Example("sterna.load('digit')"),
    "E0504": Example("sterna.load('digits')", text("digits/graph.json", '{"format": 1')),
    "E0505": Example("sterna.load('digits')", lambda f: os.truncate(f / "digits" / "params.bin", 1000)),
    "E0506": Example("sterna.load('digits')", graph("", "", version=9)),
    "E0507": Example("$ sterna run digits-web --random", for_browsers),
    "E0508": Example("sterna.load('digits')", graph('"model":"digits"', '"model":"letters"')),
    "E0509": Example("bundle.get_output('score')"),
    "E0510": Example("bundle.intermediate('scores')  # before the first run"),
    "E0511": Example(
        "model = sterna.compile('model.onnx', generator='llvm')\n"
        "model.run({'x': np.zeros((2, 6), 'float32'), 'shape': np.array([3, 5])})",
        model("(float[2, 6] x, int64[2] shape) => (float[3, 4] y) { y = Reshape(x, shape) }"),
    ),
    "E0512": Example(
        'sterna_load("digits", NULL, &model, &error);  // in C, built with STERNA_PORT_NONE', run=freestanding_host
    ),
    "E0520": Example("bundle.close()\nbundle.run({'image': x})"),
    "E0521": Example("library.find()  # in an installation without its files", nothing, incomplete_installation),
    "E0601": Example("$ sterna run digits"),
    "E0602": Example("bundle.run({'picture': x})"),
    "E0603": Example("bundle.run({'image': x.astype('float64')})"),
    "E0604": Example("bundle.run({'image': x.reshape(1, 8, 8, 1)})"),
    "E0605": Example("bundle.set_input('image', np.asfortranarray(x.repeat(2, axis=3)[..., ::2]))"),
    "E0606": Example("bundle.run({'image': 'cat.jpg'})"),
    "E0701": Example(
        "$ sterna quantize model.onnx --data samples.npz",
        lambda f: (
            SAMPLES(f),
            model(
                "(float[4] image) => (float[4] y) { q = QuantizeLinear(image, s, z)  y = DequantizeLinear(q, s, z) }",
                s=np.float32(0.1),
                z=np.uint8(0),
            )(f),
        ),
    ),
    "E0702": Example("$ sterna quantize digits.onnx --data samples", lambda f: (f / "samples").mkdir()),
    "E0703": Example(
        "$ sterna quantize digits.onnx --data samples.npz", array("samples.npz", None, image=images() * np.nan)
    ),
    "E0704": Example("$ sterna quantize digits.onnx --data samples.npz --bound 0.0000001", SAMPLES),
    "E0705": Example(
        "$ sterna quantize model.onnx --data samples.npz",
        lambda f: (
            model("(float[1, 4] x) => (float[1, 4] y) { y = Sin(x) }")(f),
            array("samples.npz", None, x=np.ones((3, 4), np.float32))(f),
        ),
    ),
    "E0706": Example("$ sterna quantize digits.onnx --data samples.npz --keep-float conv9", SAMPLES),
    "E0707": Example("to_onnx(read_model('model.onnx'))", control_flow),
    **{
        code: Example(RUN_THERE, nothing, lambda refused=refused: device(*refused)) for code, refused in REFUSED.items()
    },
    "E0801": Example("$ sterna rpc doctor rpc://127.0.0.1:1"),
    "E0901": Example(
        "$ sterna targets host",
        nothing,
        refusing("sterna.cli.targets.load_target", ZeroDivisionError("division by zero")),
    ),
}
