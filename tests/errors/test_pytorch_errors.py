"""Broken and damaged exported programs are refused: with a code, never a traceback, and nothing of them is run."""

from __future__ import annotations

import io
import json
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sterna.errors import SternaError
from sterna.frontends.formats import describe_model, read_model
from support.exported_programs import archive, saved
from support.exported_samples import network, samples


def codes(content: bytes, folder: Path) -> tuple[str, ...]:
    """The codes that a file is refused with; none if it is read."""
    file = folder / "model.pt2"
    file.write_bytes(content)
    found: tuple[str, ...] = ()
    for ask in (read_model, describe_model):
        try:
            ask(file)
        except SternaError as mistake:
            found = mistake.codes
    assert all(code.startswith("E01") for code in found), found
    return found


def changed(content: bytes, part: str, change: Callable[[bytes], bytes]) -> bytes:
    """The archive with one part of it changed."""
    file = Path(part).name
    with zipfile.ZipFile(io.BytesIO(content)) as given:
        parts = {name: given.read(name) for name in given.namelist()}
    return archive({name: change(held) if name.endswith(file) else held for name, held in parts.items()})


def test_what_the_tests_break_is_sound(tmp_path: Path) -> None:
    program = network()
    assert codes(program.content(), tmp_path) == ()
    assert codes(program.old_content(), tmp_path) == ()


@pytest.mark.parametrize("number", range(len(samples())))
def test_all_samples_are_sound(number: int, tmp_path: Path) -> None:
    """They are what `ci/fuzz` mutates."""
    assert codes(samples()[number].content(), tmp_path) == ()


def test_cut_files(tmp_path: Path) -> None:
    content = network().content()
    for size in range(0, len(content), len(content) // 23):
        assert codes(content[:size], tmp_path) != ()


_VALUES: tuple[Any, ...] = (
    -1,
    0,
    1,
    2**31,
    -(2**63),
    1.5,
    "",
    "x",
    "aten.mm.default",
    None,
    True,
    [],
    {},
    [[]],
    {"as_int": -3},
)


def mutated(document: Any, random: Random) -> None:
    """One place of a JSON document changed."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            visit(node[key])

    visit(document)
    node, key = random.choice(places)
    kind = random.randrange(4)
    other = random.choice(places)
    if kind == 0:
        node[key] = random.choice(_VALUES)
    elif kind == 1:
        del node[key]
    elif kind == 2:
        node[key] = (
            json.loads(json.dumps(other[0][other[1]])) if other[1] in other[0] or isinstance(other[0], list) else 0
        )
    elif isinstance(node[key], int):
        node[key] = node[key] + random.choice((-1, 1, 100))
    else:
        node[key] = random.choice(_VALUES)


@pytest.mark.parametrize("part", ["model.json", "model_weights_config.json"])
def test_mutated_programs(part: str, tmp_path: Path) -> None:
    content = network().content()
    random = Random(11)
    refused = 0
    for _ in range(250):

        def change(held: bytes) -> bytes:
            document = json.loads(held)
            mutated(document, random)
            return json.dumps(document).encode()

        refused += bool(codes(changed(content, part, change), tmp_path))
    assert refused > 50


@pytest.mark.parametrize("old", [False, True])
def test_damaged_bytes(old: bool, tmp_path: Path) -> None:
    program = network()
    content = program.old_content() if old else program.content()
    random = Random(7)
    for _ in range(200):
        held = bytearray(content)
        for _ in range(random.randrange(1, 4)):
            held[random.randrange(len(held))] = random.randrange(256)
        codes(bytes(held), tmp_path)


def test_damaged_pickles(tmp_path: Path) -> None:
    program = network()
    random = Random(3)
    content = program.old_content()
    whole = saved(program.weights)
    for _ in range(300):

        def change(held: bytes) -> bytes:
            with zipfile.ZipFile(io.BytesIO(whole)) as given:
                parts = {name: given.read(name) for name in given.namelist()}
            pickle = bytearray(parts["archive/data.pkl"])
            for _ in range(random.randrange(1, 4)):
                pickle[random.randrange(len(pickle))] = random.randrange(256)
            return archive({**parts, "archive/data.pkl": bytes(pickle)})

        codes(changed(content, "serialized_state_dict.pt", change), tmp_path)


def test_a_graph_within_itself_without_end(tmp_path: Path) -> None:
    """Graphs nested deeper than any model are refused."""
    document = network().document()
    inner: dict[str, Any] = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}}
    for _ in range(60):
        argument = {"name": "", "arg": {"as_graph": {"name": "g", "graph": inner}}}
        node = {"target": "torch.ops.higher_order.wrap", "inputs": [argument], "outputs": [], "name": "n"}
        inner = {"inputs": [], "outputs": [], "nodes": [node], "tensor_values": {}}
    document["graph_module"]["graph"]["nodes"] = inner["nodes"]
    assert codes(archive({"a/models/model.json": json.dumps(document).encode()}), tmp_path) == ("E0103",)


def test_a_newer_schema(tmp_path: Path) -> None:
    document = network().document()
    document["schema_version"] = {"major": 99, "minor": 1}
    assert codes(archive({"a/models/model.json": json.dumps(document).encode()}), tmp_path) == ("E0102",)


def test_weights_that_are_missing(tmp_path: Path) -> None:
    program = network()
    program.weights.pop("fc.weight")
    assert codes(program.content(), tmp_path) == ("E0103",)


def test_torchscript_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TorchScript file is known by what it holds, and says what it needs."""
    monkeypatch.setitem(sys.modules, "torch", None)
    held = archive({"m/data.pkl": b"\x80\x02}.", "m/code/__torch__/net.py": b"", "m/data/0": b""})
    file = tmp_path / "model.pt"
    file.write_bytes(held)
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes == ("E0004",)
    assert "torch.export.save" in str(caught.value)


def test_no_more_is_unpacked_than_an_archive_says(tmp_path: Path) -> None:
    """A part that claims a few bytes and holds many is damaged, and is not unpacked whole to find that out."""
    parts = network().content()
    with zipfile.ZipFile(io.BytesIO(parts)) as given:
        names = {name: given.read(name) for name in given.namelist()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, held in names.items():
            made.writestr(name, bytes(64 << 20) if name.endswith(".json") else held)
    content = bytearray(file.getvalue())
    claimed = (64 << 20).to_bytes(4, "little")
    assert claimed in content
    content = content.replace(claimed, (100).to_bytes(4, "little"))
    tracemalloc.start()
    try:
        assert codes(bytes(content), tmp_path) == ("E0101",)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
