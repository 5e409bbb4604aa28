"""Bundles through the Python API: running, binding, looking inside, refusing."""

from __future__ import annotations

import gc
import pickle
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest

import sterna
from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna_runtime import Bundle, TensorSpec, building, cpu_has, hash64, library, load
from sterna_runtime.abi import FORMAT
from sterna_runtime.error_codes import CODES
from sterna_runtime.inputs import dtype_from_name, match_inputs
from sterna_runtime.reader import read_graph
from support import handmade_bundle

SHAPE = (handmade_bundle.ROWS, handmade_bundle.COLUMNS)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return handmade_bundle.write(tmp_path / "bundle")


@pytest.fixture
def x() -> npt.NDArray[np.float32]:
    return np.random.default_rng(11).standard_normal(SHAPE).astype(np.float32)


def codes(function: Any, *arguments: Any) -> tuple[str, ...]:
    with pytest.raises(SternaError) as caught:
        function(*arguments)
    assert str(caught.value).startswith("error[E0")
    return caught.value.codes


def good_graph() -> dict[str, Any]:
    return handmade_bundle.graph(handmade_bundle.params(), handmade_bundle.kernel_library())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_run(directory: Path, x: npt.NDArray[np.float32], threads: int) -> None:
    with load(directory, threads) as bundle:
        assert bundle.inputs == (TensorSpec("x", np.dtype(np.float32), SHAPE),)
        assert [spec.name for spec in bundle.outputs] == ["y"]
        expected = handmade_bundle.expected(x)["y"]
        first = bundle.run({"x": x})["y"]
        assert np.array_equal(first, expected)
        assert np.array_equal(bundle.run([2 * x])["y"], handmade_bundle.expected(2 * x)["y"])
        assert np.array_equal(first, expected), "each run returns its own arrays"


def test_inputs_of_many_kinds(directory: Path, x: npt.NDArray[np.float32]) -> None:
    class OnlyDLPack:
        def __dlpack__(self, **options: Any) -> Any:
            return x.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return x.__dlpack_device__()

    bundle = load(directory)
    expected = handmade_bundle.expected(x)["y"]
    assert np.array_equal(bundle.run({"x": np.asfortranarray(x)})["y"], expected)
    assert np.array_equal(bundle.run({"x": np.repeat(x, 2, axis=1)[:, ::2]})["y"], expected)
    assert np.array_equal(bundle.run({"x": x.tolist()})["y"], expected)
    assert np.array_equal(bundle.run([OnlyDLPack()])["y"], expected)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(SHAPE)
    assert np.array_equal(bundle.run([unaligned])["y"], expected)


def test_three_calls_without_copies(directory: Path, x: npt.NDArray[np.float32]) -> None:
    bundle = load(directory)
    bundle.set_input("x", x)
    output = bundle.get_output("y")
    assert bundle.run() is None
    assert np.array_equal(output, handmade_bundle.expected(x)["y"])
    x *= 3
    bundle.run()
    assert np.array_equal(output, handmade_bundle.expected(x)["y"]), "the input was bound, not copied"
    assert bundle.get_output("y") is output
    assert not output.flags.writeable
    other = x + 1
    bundle.run({"x": other})
    bundle.run()
    assert np.array_equal(output, handmade_bundle.expected(x)["y"]), "run(inputs) leaves set_input's array bound"


def test_bound_input_is_kept_alive(directory: Path) -> None:
    bundle = load(directory)
    bundle.set_input("x", np.ones(SHAPE, np.float32))
    gc.collect()
    noise = [np.zeros(SHAPE, np.float32) for _ in range(100)]
    bundle.run()
    assert np.array_equal(bundle.get_output("y"), handmade_bundle.expected(np.ones(SHAPE, np.float32))["y"])
    del noise


def test_wrong_inputs_are_reported_together(directory: Path, x: npt.NDArray[np.float32]) -> None:
    bundle = load(directory)
    assert codes(bundle.run, {}) == ("E0601",)
    assert codes(bundle.run, {"z": x}) == ("E0602", "E0601")
    assert codes(bundle.run, {"x": x[:2].astype(np.float64), "z": x}) == ("E0602", "E0603", "E0604")
    assert codes(bundle.run, [x, x]) == ("E0602",)
    assert codes(bundle.run, {"x": "text"}) == ("E0606",)
    assert codes(bundle.run, {"x": object()}) == ("E0606",)
    assert codes(bundle.run, 7) == ("E0606",)
    assert codes(bundle.run, "x") == ("E0606",)
    assert codes(bundle.set_input, "z", x) == ("E0602",)
    assert codes(bundle.set_input, "x", x.T) == ("E0604",)
    assert codes(bundle.set_input, "x", np.asfortranarray(x)) == ("E0605",)
    assert codes(bundle.get_output, "z") == ("E0509",)


def test_messages_name_what_was_wanted(directory: Path, x: npt.NDArray[np.float32]) -> None:
    with pytest.raises(SternaError) as caught:
        load(directory).run({"x": x.astype(np.int8)})
    assert str(caught.value) == (
        'error[E0603]: input "x" has dtype int8\n  the model expects x float32[4, 6]\n  fix: array.astype("float32")'
    )


def test_intermediates(directory: Path, x: npt.NDArray[np.float32]) -> None:
    bundle = load(directory)
    assert codes(bundle.intermediate, "scaled") == ("E0510",)
    assert np.array_equal(bundle.intermediate("w"), handmade_bundle.WEIGHTS)
    bundle.set_input("x", x)
    bundle.run()
    for name, value in handmade_bundle.expected(x).items():
        assert np.allclose(bundle.intermediate(name), value, rtol=1e-6), name
    assert codes(bundle.intermediate, "gone") == ("E0510",)
    assert codes(bundle.intermediate, "none") == ("E0509",)
    assert [spec.name for spec in bundle.values] == ["x", "w", "scaled", "total", "gone", "y"]


@pytest.mark.parametrize("threads", [1, 2])
def test_profile(directory: Path, threads: int) -> None:
    bundle = load(directory, threads)
    times = bundle.profile(repeat=5)
    assert [(time.index, time.name, time.kernel, time.tasks) for time in times] == [
        (0, "scale", "scale", 4),
        (1, "total", "total", 1),
        (2, "shift", "shift", 4),
    ]
    assert times[0].sources == ("Mul_0",)
    assert all(0 <= time.fastest <= time.nanoseconds < 10**9 for time in times)
    assert codes(bundle.profile, 0) == ("E0501",)


def test_sizes_and_memory(directory: Path) -> None:
    bundle = load(directory)
    assert bundle.sizes() == {path.name: path.stat().st_size for path in directory.iterdir()}
    assert bundle.memory() == {"arena": 320, "scratch": 64, "signature": 192, "params": 128}
    assert bundle.directory == directory
    assert "x float32[4, 6] -> y float32[4, 6]" in repr(bundle)


def test_close(directory: Path, x: npt.NDArray[np.float32]) -> None:
    bundle = load(directory, threads=2)
    before = bundle.run({"x": x})["y"]
    bundle.set_input("x", x)
    bundle.run()
    output = bundle.get_output("y")
    bundle.close()
    bundle.close()
    gc.collect()
    assert np.array_equal(output, before), "the runtime's memory lives as long as an array that shows it"
    assert bundle.closed
    assert "closed" in repr(bundle)
    for call in (bundle.run, bundle.profile, lambda: bundle.run([x]), lambda: bundle.get_output("y")):
        assert codes(call) == ("E0520",)


def test_cannot_be_pickled(directory: Path) -> None:
    with pytest.raises(TypeError, match="send its directory"):
        pickle.dumps(load(directory))


def test_threads_of_the_caller(directory: Path) -> None:
    """Calls from several threads wait for one another and do not mix."""
    bundle = load(directory, threads=2)
    wrong: list[int] = []

    def caller(seed: int) -> None:
        x = np.full(SHAPE, seed, np.float32)
        for _ in range(200):
            if not np.array_equal(bundle.run({"x": x})["y"], handmade_bundle.expected(x)["y"]):
                wrong.append(seed)

    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(3)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert wrong == []


def test_idle_threads_sleep(directory: Path, x: npt.NDArray[np.float32]) -> None:
    bundle = load(directory, threads=3)
    bundle.run([x])
    time.sleep(0.05)
    start = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - start < 0.1


def test_a_bundle_compiled_again_is_loaded_again(directory: Path, x: npt.NDArray[np.float32]) -> None:
    """The loader of the system must not give back the library that was at the same path before."""
    old = load(directory)
    first = old.run([x])["y"]
    changed = handmade_bundle.KERNELS_C.replace("call->params;\n", "call->params + 4;\n", 1).replace("* w[i]", "+ w[i]")
    assert changed != handmade_bundle.KERNELS_C
    fresh = directory / "fresh.so"
    handmade_bundle.compile_c(changed, fresh)
    graph = handmade_bundle.graph(handmade_bundle.params(), fresh.read_bytes())
    fresh.replace(directory / "model.so")
    (directory / "graph.json").write_bytes(handmade_bundle.graph_text(graph))
    new = load(directory)
    assert not np.array_equal(new.run([x])["y"], first)
    assert np.array_equal(old.run([x])["y"], first)


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        (lambda g: g.update(abi=2), "E0506", "kernel ABI is 2; this runtime speaks 1"),
        (lambda g: g["target"].update(pointer_bits=16), "E0507", "16-bit pointers"),
        (lambda g: g["target"].update(triple="sparc64-x"), "", ""),
        (lambda g: g["target"].update(triple="wasm32-freestanding"), "E0507", "compiled for wasm32"),
        (lambda g: g["target"].update(cpu_features=["warp-drive"]), "E0507", '"warp-drive"'),
        (lambda g: g.update(model="other"), "E0508", "no function sterna_other_library"),
        (lambda g: g.update(model="a/b"), "E0504", "C identifier"),
        (lambda g: g.update(library="../model.so"), "E0504", "not a file name"),
        (lambda g: g["files"].pop("model.so"), "E0504", '"model.so"'),
        (lambda g: g["files"]["model.so"].update(bytes=7), "E0505", "it had 7"),
        (lambda g: g["files"]["params.bin"].update(hash="0" * 16), "E0505", "params.bin: hash is"),
        (lambda g: g["kernels"].pop(), "E0508", "has 4 kernels; graph.json has 3"),
        (lambda g: g["nodes"][0].update(tasks=5), "E0508", "has 5 tasks"),
        (lambda g: g["nodes"][0].update(kernel=4), "E0504", "kernel is not one of the 4"),
        (lambda g: g["nodes"][0].update({"in": [6]}), "E0504", "not one of the 6 values"),
        (lambda g: g["nodes"][0].update(out=[1]), "E0504", 'writes to "w"'),
        (lambda g: g["nodes"][0].update(out=[0]), "E0504", 'writes to "x"'),
        (lambda g: g["nodes"][0].update(params_at=32), "E0504", "aligned"),
        (lambda g: g["nodes"][0].update(params_at=128), "E0504", "aligned"),
        (lambda g: g["nodes"][0].update(params_at=2**64 - 64, params_bytes=128), "E0504", "aligned"),
        (lambda g: g.update(scratch_bytes=0), "E0508", "needs 64 bytes of scratch"),
        (lambda g: g.update(scratch_bytes=63), "E0504", "scratch_bytes"),
        (lambda g: g["arena"].update(bytes=271), "E0504", "271 bytes of arena"),
        (lambda g: g["arena"].update(bytes=2**63), "E0502", "9223372036854775808"),
        (lambda g: g["values"][2]["storage"].update(strides=[11, 1]), "", ""),
        (lambda g: g["values"][2]["storage"].update(strides=[15, 1]), "E0504", '"scaled"'),
        (lambda g: g["values"][2]["storage"].update(strides=[2**62, 1]), "E0504", '"scaled"'),
        (lambda g: g["values"][2]["storage"].update(strides=[1]), "E0504", '"scaled"'),
        (lambda g: g["values"][2]["storage"].update(origin=2**64 - 1), "E0504", '"scaled"'),
        (lambda g: g["values"][2]["storage"].update(offset=2), "E0504", '"scaled"'),
        (lambda g: g["values"][2].update(dims=[2**32, 2**32]), "E0504", '"scaled"'),
        (lambda g: g["values"][2].update(dims=[1] * 17), "E0504", '"scaled"'),
        (lambda g: g["values"][2].update(dtype="float8"), "E0504", "dtype"),
        (lambda g: g["values"][2]["storage"].update({"class": "stack"}), "E0504", "storage class"),
        (lambda g: g["values"][0]["storage"].update(bytes=95), "E0504", '"x"'),
        (lambda g: g["inputs"].append(0), "E0504", "occurs twice"),
        (lambda g: g["inputs"].append(5), "E0504", "stored elsewhere"),
        (lambda g: g["inputs"].clear(), "E0504", "is not one"),
        (lambda g: g["outputs"].append(9), "E0504", "output 1: not one of the values"),
        (lambda g: g.pop("nodes"), "E0504", "nodes is missing"),
    ],
)
def test_spoiled_graphs(spoil: Any, code: str, says: str, tmp_path: Path) -> None:
    graph = good_graph()
    spoil(graph)
    directory = handmade_bundle.write(tmp_path / "bundle", graph)
    if not code:
        load(directory)
        return
    with pytest.raises(SternaError) as caught:
        load(directory)
    assert caught.value.codes == (code,)
    assert says in str(caught.value)
    assert str(directory) in str(caught.value)


def test_files_that_are_missing_or_strange(directory: Path) -> None:
    assert codes(load, directory / "none") == ("E0503",)
    assert codes(load, "a\0b") == ("E0501",)
    assert codes(load, directory, 0) == ("E0501",)
    (directory / "graph.json").write_bytes(handmade_bundle.graph_text(good_graph(), version=FORMAT + 1))
    with pytest.raises(SternaError, match=f"format version is {FORMAT + 1}; this runtime reads 1 to {FORMAT}"):
        load(directory)
    (directory / "graph.json").write_text('{"sterna":1}')
    assert codes(load, directory) == ("E0504",)
    (directory / "params.bin").unlink()
    (directory / "graph.json").write_bytes(handmade_bundle.graph_text(good_graph()))
    assert codes(load, directory) == ("E0503",)
    (directory / "params.bin").mkdir()
    assert codes(load, directory) == ("E0503",)


def test_a_failing_kernel(tmp_path: Path, x: npt.NDArray[np.float32]) -> None:
    graph = good_graph()
    graph["nodes"][1].update(kernel=3, name="breaks")
    bundle = load(handmade_bundle.write(tmp_path / "bundle", graph))
    with pytest.raises(SternaError, match=r'E0511.*node 1 \("breaks"\): kernel "failing" returned -11'):
        bundle.run([x])


def test_hash_is_xxh64() -> None:
    data = np.random.default_rng(5).integers(0, 256, 300, dtype=np.uint8).tobytes()
    for size in (*range(70), 128, 255, 300):
        assert hash64(data[:size]) == handmade_bundle.xxh64(data[:size])


def test_dtypes() -> None:
    names = [
        "float32",
        "float64",
        "float16",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
    ]
    sizes = [4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1]
    assert [dtype_from_name(name).itemsize for name in names] == sizes
    spec = TensorSpec("scalar", np.dtype(np.int64), ())
    assert match_inputs([spec], [3])[0] == 3
    assert spec.nbytes == 8


def test_cpu_features() -> None:
    assert cpu_has("no-such-feature") is None
    llvm = pytest.importorskip("llvmlite.binding", reason="needs llvmlite: compares the CPU features it finds")
    found = {name: has for name, has in llvm.get_host_cpu_features().items() if not name.startswith("amx")}
    known = {name: cpu_has(name) for name in found if cpu_has(name) is not None}
    assert len(known) > 5
    assert known == {name: found[name] for name in known}


def test_the_library_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    sources = building.runtime_sources()
    assert sources is not None
    path = building.build(sources)
    assert tmp_path in path.parents
    stamp = path.stat().st_mtime_ns
    assert building.build(sources) == path
    assert path.stat().st_mtime_ns == stamp
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("machine", "wanted"), [("armv6l", "arm1176jzf_s"), ("aarch64", "generic+v7a+vfp3d16-neon-d32")]
)
def test_it_is_built_for_the_processor_of_this_python(
    machine: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 32 bits, on kernels of 32 and of 64 bits; by the triple alone zig takes a newer processor."""
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert codes(building.build, building.runtime_sources()) == ("E0401",)
    assert f"-mcpu={wanted}" in commands[0]
    assert commands[0][commands[0].index("-target") + 1].startswith("arm-linux-gnueabihf.")


def full(*_: object, **__: object) -> str:
    """In place of `mkdtemp`."""
    raise OSError(28, "No space left on device")


def test_a_runtime_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "cache"))
    assert codes(building.build, tmp_path) == ("E0401",)
    with monkeypatch.context() as context:
        context.setattr(tempfile, "mkdtemp", full)
        assert codes(building.build, tmp_path) == ("E0401",)
    for module in (library, building):
        monkeypatch.setattr(module, "_PACKAGE", tmp_path / "a" / "b")
    assert codes(library.find) == ("E0521",)


def test_error_texts() -> None:
    both = SternaError([Diagnostic("E0601", "one", ("here", "there")), Diagnostic("E0602", "two", fix="do it")])
    assert str(both) == "error[E0601]: one\n  here\n  there\n\nerror[E0602]: two\n  fix: do it"
    assert error("E0601", "x").codes == ("E0601",)
    assert internal_error("impossible").codes == ("E0901",)
    assert "please report" in str(internal_error("impossible"))
    assert pickle.loads(pickle.dumps(both)).diagnostics == both.diagnostics
    with pytest.raises(ValueError, match="not listed"):
        Diagnostic("E9999", "no such code")
    with pytest.raises(ValueError, match="at least one"):
        SternaError([])
    assert all(len(code) == 5 and meaning for code, meaning in CODES.items())


def test_run_is_cheap(directory: Path) -> None:
    """Not a benchmark: fails only if a call does something of another order than one foreign call."""
    bundle: Bundle = load(directory)
    best = min(_seconds(bundle) for _ in range(20))
    assert best < 20e-6


def _seconds(bundle: Bundle) -> float:
    start = time.perf_counter()
    for _ in range(100):
        bundle.run()
    return (time.perf_counter() - start) / 100


def test_labels_of_many_outputs(tmp_path: Path) -> None:
    """Those of the first sixteen are read, in whatever order they stand: loading takes linear time."""
    nodes = "".join(f"y{n} = Neg(x)\n" for n in range(20))
    outputs = ", ".join(f"float[2] y{n}" for n in range(20))
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => ({outputs}) {{\n{nodes}}}'
    )
    place = sterna.compile_to(tmp_path / "many", model, generator="llvm")
    members = read_graph(place)
    names = [members["values"][value]["name"] for value in members["outputs"]]
    members["metadata"] = {"labels": {name: [f"{name} a", f"{name} b"] for name in reversed(names)}}
    del members["sterna"], members["hash"]
    (place / "graph.json").write_bytes(handmade_bundle.graph_text(members))
    with load(place) as bundle:
        for n, name in enumerate(names):
            assert bundle.labels(name) == ((f"{name} a", f"{name} b") if n < 16 else ())
