"""Damaged bundles: whatever is in the files, loading gives a clear error or a bundle that is safe to run.

A C program built with AddressSanitizer and UndefinedBehaviorSanitizer (runtime_c/test/fuzz_load.c) loads the bundles
from files. Many more, from memory and with sequences of calls, are those of test_native_fuzz.py and ci/fuzz.

It stays alive from one example to the next; an example that kills it is a failure, and hypothesis then shrinks it.
"""

from __future__ import annotations

import copy
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import handmade_bundle, handmade_dims

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "runtime_c"
STATUSES = {
    "OK",
    "BAD_ARGUMENT",
    "RESOURCES",
    "UNREADABLE",
    "MALFORMED",
    "DAMAGED",
    "WRONG_VERSION",
    "WRONG_MACHINE",
    "BAD_LIBRARY",
}
FILES = ("graph.json", "params.bin", "model.so")

few = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
many = settings(few, max_examples=300)


class Loader:
    """The C program: one bundle in, one line out. It is started again after it died."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program = program
        self.directory = directory
        self.process: subprocess.Popen[str] | None = None
        self.log = directory.parent / "sanitizer.log"

    def load(self, files: dict[str, bytes]) -> tuple[str, str]:
        """Status and message for a bundle of these files."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        for name, content in files.items():
            (self.directory / name).write_bytes(content)
        if self.process is None or self.process.poll() is not None:
            # Memory that cannot be had is NULL, as it is without the sanitizer.
            options = "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=1"
            self.process = subprocess.Popen(
                [self.program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log.open("w"),
                text=True,
                errors="replace",
                env={**os.environ, "ASAN_OPTIONS": options},
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{self.directory}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line.endswith("\n"), f"the loader died:\n{self.log.read_text(errors='replace')[:5000]}"
        status, _, message = line.rstrip("\n").partition(" ")
        assert status in STATUSES
        assert (status == "OK") == (message == ""), "an error has a message"
        return status, message

    def close(self) -> None:
        """Ends the program; it reports its leaks then."""
        if self.process is not None and self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            code = self.process.wait(timeout=60)
            assert code == 0, self.log.read_text(errors="replace")[:5000]


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    gcc = shutil.which("gcc")
    if gcc is None or platform.system() != "Linux":
        pytest.skip("needs gcc: builds the loader with sanitizers")
    folder = tmp_path_factory.mktemp("fuzz")
    sources = sorted(str(path) for path in (RUNTIME / "src").glob("*.c"))
    flags = ["-std=c99", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    includes = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}"]
    main = [str(RUNTIME / "test" / name) for name in ("fuzz_load.c", "fuzz_check.c")]
    port = str(RUNTIME / "port" / "posix.c")
    program = folder / "fuzz_load"
    subprocess.run([gcc, *flags, *includes, *main, *sources, port, "-o", program, "-lpthread", "-ldl"], check=True)
    result = Loader(program, folder / "bundle")
    yield result
    result.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def good() -> dict[str, bytes]:
    library, params = handmade_bundle.kernel_library(), handmade_bundle.params()
    graph = handmade_bundle.graph_text(handmade_bundle.graph(params, library))
    return {"graph.json": graph, "params.bin": params, "model.so": library}


def test_the_undamaged_bundle_loads(loader: Loader, good: dict[str, bytes]) -> None:
    assert loader.load(good) == ("OK", "")


@few
@given(name=st.sampled_from(FILES), data=st.data())
def test_truncated(loader: Loader, good: dict[str, bytes], name: str, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(good[name]) - 1))
    status, message = loader.load({**good, name: good[name][:length]})
    assert status in ("DAMAGED", "MALFORMED")
    assert name in message


@few
@given(name=st.sampled_from(FILES), data=st.data())
def test_flipped(loader: Loader, good: dict[str, bytes], name: str, data: st.DataObject) -> None:
    spoiled = bytearray(good[name])
    for _ in range(data.draw(st.integers(1, 4))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] ^= data.draw(st.integers(1, 255))
    status, message = loader.load({**good, name: bytes(spoiled)})
    if bytes(spoiled) == good[name]:
        return
    assert status != "OK"
    assert name in message


@few
@given(name=st.sampled_from(FILES), tail=st.binary(min_size=1, max_size=5000))
def test_oversized(loader: Loader, good: dict[str, bytes], name: str, tail: bytes) -> None:
    status, _ = loader.load({**good, name: good[name] + tail})
    assert status == "DAMAGED"


@pytest.mark.parametrize("missing", FILES)
def test_missing(loader: Loader, good: dict[str, bytes], missing: str) -> None:
    status, message = loader.load({name: content for name, content in good.items() if name != missing})
    assert status == "UNREADABLE"
    assert message.startswith(missing)


@many
@given(data=st.data())
def test_flipped_under_a_right_hash(loader: Loader, good: dict[str, bytes], data: st.DataObject) -> None:
    """The parser sees the damage: the hash of graph.json is that of the damaged text."""
    rest = bytearray(good["graph.json"].partition(b"\n")[2])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(rest) - 1))
        action = data.draw(st.sampled_from(["flip", "delete", "insert", "cut"]))
        if action == "flip":
            rest[at] ^= data.draw(st.integers(1, 255))
        elif action == "delete":
            del rest[at : at + data.draw(st.integers(1, 20))]
        elif action == "insert":
            rest[at:at] = data.draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b"9", b"0", b"[", b"{", b'"']))
        else:
            del rest[at:]
        if not rest:
            break
    loader.load({**good, "graph.json": handmade_bundle.graph_text(bytes(rest))})


_EXTREMES = [0, 1, 2, 3, 15, 16, 63, 64, 65, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63]
_odd_values = st.one_of(
    st.sampled_from([*_EXTREMES, 2**64 - 64, 2**64 - 1, 2**64, -1, 1.5, 1e30, None, True, False, "", "x", [], {}]),
    st.integers(0, 400),
    st.integers(0, 2**64 - 1),
    st.lists(st.sampled_from([*_EXTREMES, -1]) | st.integers(0, 12), max_size=20),
    st.sampled_from(["float64", "int8", "uint64", "bool", "arena", "param", "input", "output"]),
)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all members and elements of a JSON tree."""
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in members:
        yield (*path, key)
        yield from _places(value, (*path, key))


@many
@given(data=st.data())
def test_wrong_numbers_under_a_right_hash(loader: Loader, good: dict[str, bytes], data: st.DataObject) -> None:
    """Well-formed graphs whose members are odd: what the bounds checks are for."""
    graph = json.loads(good["graph.json"])
    del graph["sterna"], graph["hash"]
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(_places(graph))
        place = data.draw(st.sampled_from(places))
        holder: Any = graph
        for key in place[:-1]:
            holder = holder[key]
        action = data.draw(st.sampled_from(["replace", "replace", "replace", "delete", "copy"]))
        if action == "replace":
            holder[place[-1]] = data.draw(_odd_values)
        elif action == "delete":
            del holder[place[-1]]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[place[-1]]))
    loader.load({**good, "graph.json": handmade_bundle.graph_text(graph)})


_leaf = st.one_of(
    st.integers(-20, 20),
    st.sampled_from(
        [0, 2**31, 2**32, 2**62, 2**63 - 1, 1 - 2**63, -(2**63), 2**63, 2**64, 1.5, None, True, "d", {}, []]
    ),
    st.builds(lambda k: ["d", k], st.integers(0, 1) | st.sampled_from([-1, 2, 2**32, 2**64, "x", None])),
)
_expressions = st.recursive(
    _leaf,
    lambda part: (
        st.builds(
            lambda kind, parts: [kind, *parts],
            st.sampled_from(["+", "*", "/", "%", "min", "max"]),
            st.lists(part, max_size=4),
        )
        | st.builds(lambda kind, e, c: [kind, e, c], st.sampled_from("/%"), part, st.integers(-2, 9))
    ),
    max_leaves=12,
)


@many
@given(data=st.data())
def test_odd_expressions(loader: Loader, data: st.DataObject) -> None:
    """Dimensions, strides, origins and tasks that are expressions, sound and not; then other sizes."""
    graph = handmade_dims.graph(handmade_dims.kernel_library())
    for _ in range(data.draw(st.integers(1, 3))):
        value = data.draw(st.sampled_from(graph["values"]))
        storage, expression = value["storage"], data.draw(_expressions)
        place = data.draw(st.sampled_from(["dims", "strides", "origin", "tasks", "symbols", "any"]))
        if place == "dims":
            value["dims"][-1] = expression
        elif place == "strides":
            storage["strides"][0] = expression
        elif place == "origin":
            storage["origin"] = expression
        elif place == "tasks":
            data.draw(st.sampled_from(graph["nodes"]))["tasks"] = expression
        elif place == "symbols":
            bound = data.draw(st.sampled_from(["lo", "hi", "name"]))
            data.draw(st.sampled_from(graph["symbols"]))[bound] = data.draw(_odd_values)
        else:
            path = data.draw(st.sampled_from(list(_places(graph))))
            holder: Any = graph
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = expression
            break  # the others could not find their places
    library = handmade_dims.kernel_library()
    files = {"graph.json": handmade_bundle.graph_text(graph), "params.bin": b"", "model.so": library}
    loader.load(files)


_terms = st.integers(-20, 20) | st.sampled_from([["d", 0], ["d", 1]])
_sound_expressions = st.recursive(
    _terms,
    lambda part: (
        st.builds(lambda kind, a, b: [kind, a, b], st.sampled_from(["+", "*", "min", "max"]), part, part)
        | st.builds(lambda kind, e, c: [kind, e, c], st.sampled_from("/%"), part, st.integers(1, 9))
    ),
    max_leaves=8,
)


@few
@given(data=st.data())
def test_sound_expressions(loader: Loader, data: st.DataObject) -> None:
    """Most of these load, and are resized: some sizes are good, others are refused."""
    library = handmade_dims.kernel_library()
    graph = handmade_dims.graph(library)

    def small(most: int) -> list[Any]:
        return ["max", ["min", data.draw(_sound_expressions), data.draw(st.integers(0, most))], 0]

    mid = graph["values"][2]
    mid["dims"] = [small(9), small(6)]
    mid["storage"]["strides"] = [small(12), small(3)]
    mid["storage"]["origin"] = small(20)
    graph["nodes"][0]["tasks"] = small(4)
    loader.load({"graph.json": handmade_bundle.graph_text(graph), "params.bin": b"", "model.so": library})


@pytest.mark.parametrize("depth", [10, 24, 27, 28, 29, 40, 100_000])
def test_deep_expressions(loader: Loader, depth: int) -> None:
    graph = handmade_dims.graph(handmade_dims.kernel_library())
    text = handmade_bundle.graph_text(graph).partition(b"\n")[2]
    deep = b'["+", 0, ' * depth + b'["d", 0]' + b"]" * depth
    spoiled = handmade_bundle.graph_text(text.replace(b'"tasks": [\n    "d",\n    0\n   ]', b'"tasks": ' + deep))
    assert deep in spoiled
    files = {"graph.json": spoiled, "params.bin": b"", "model.so": handmade_dims.kernel_library()}
    # The object, the list of nodes, the node, then the expression: 32 in all.
    assert loader.load(files)[0] == ("OK" if depth + 1 + 3 <= 32 else "MALFORMED")


@pytest.mark.parametrize("terms", [100, 128, 129, 100_000])
def test_long_expressions(loader: Loader, terms: int) -> None:
    graph = handmade_dims.graph(handmade_dims.kernel_library())
    graph["values"][2]["storage"]["origin"] = ["+", 1, *[0] * (terms - 1)]
    files = {
        "graph.json": handmade_bundle.graph_text(graph),
        "params.bin": b"",
        "model.so": handmade_dims.kernel_library(),
    }
    assert loader.load(files)[0] == ("OK" if 2 * terms - 1 <= 256 else "MALFORMED")


@few
@given(params=st.binary(max_size=300))
def test_other_weights_under_right_hashes(loader: Loader, good: dict[str, bytes], params: bytes) -> None:
    graph = handmade_bundle.graph(params, good["model.so"])
    text = handmade_bundle.graph_text(graph)
    status, _ = loader.load({**good, "params.bin": params, "graph.json": text})
    assert status == ("OK" if len(params) >= 88 else "MALFORMED")


@few
@given(text=st.binary(max_size=400))
def test_arbitrary_text(loader: Loader, good: dict[str, bytes], text: bytes) -> None:
    assert loader.load({**good, "graph.json": text})[0] in ("MALFORMED", "WRONG_VERSION")
    assert loader.load({**good, "graph.json": b'{"sterna":1' + text})[0] in ("MALFORMED", "WRONG_VERSION", "DAMAGED")
    assert loader.load({**good, "graph.json": handmade_bundle.graph_text(text)})[0] != "OK"


@pytest.mark.parametrize("part", range(0, 100, 3))
def test_part_of_a_library_under_a_right_hash(loader: Loader, good: dict[str, bytes], part: int) -> None:
    """The system would map what is not there, and the first touch of it would be a SIGBUS."""
    library = good["model.so"][: len(good["model.so"]) * part // 100]
    text = handmade_bundle.graph_text(handmade_bundle.graph(good["params.bin"], library))
    status, message = loader.load({**good, "model.so": library, "graph.json": text})
    assert status == "BAD_LIBRARY"
    assert "model.so: is cut off" in message
