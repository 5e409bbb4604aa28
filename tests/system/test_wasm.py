"""WebAssembly libraries: what they import and export, variants in one bundle, bundles of one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sterna.api import compile_to
from sterna.errors import SternaError
from sterna.targets.description import load_target
from sterna.toolchain.wasm import exported_constant, wasm_imports
from sterna_runtime import hash64
from sterna_runtime.ownership import parts_of_one_file
from support.trained import digits

FAMILY = load_target("browser").variants


def test_the_family_names_targets() -> None:
    targets = [load_target(name) for name in FAMILY]
    assert "browser" in FAMILY
    assert targets[-1].cpu_features == ()
    needs = [set(t.cpu_features) for t in targets]
    assert all(not needs[i] < needs[j] for i in range(len(needs)) for j in range(i + 1, len(needs)))  # best first


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_all_variants_share_graph_and_weights(generator: str, tmp_path: Path) -> None:
    place = compile_to(tmp_path / "all", digits().file, "browser", generator=generator, all_variants=True)
    alone = compile_to(tmp_path / "one", digits().file, "browser", generator=generator)
    graph = json.loads((place / "graph.json").read_text())
    assert [v["target"] for v in graph["variants"]] == list(FAMILY)
    assert (place / "params.bin").read_bytes() == (alone / "params.bin").read_bytes()
    assert (place / "model.wasm").read_bytes() == (alone / "model.wasm").read_bytes()
    seen = set()
    for variant in graph["variants"]:
        data = (place / variant["library"]).read_bytes()
        seen.add(data)
        entry = graph["files"][variant["library"]]
        assert (entry["bytes"], entry["hash"]) == (len(data), hash64(data))
        assert entry["static_bytes"] == exported_constant(data, "__heap_base")
        assert wasm_imports(data) == ("env.memory",)
        assert variant["cpu_features"] == list(load_target(variant["target"]).cpu_features)
    assert len(seen) == len(FAMILY)


@pytest.mark.parametrize("target", ["browser", "browser-threads", "wasi"])
def test_a_bundle_of_one_file(target: str, tmp_path: Path) -> None:
    place = compile_to(tmp_path / "one", digits().file, target, single_file=True)
    usual = compile_to(tmp_path / "usual", digits().file, target)
    assert not (place / "graph.json").exists()
    assert not (place / "params.bin").exists()
    data = (place / "model.wasm").read_bytes()
    parts = parts_of_one_file(data)
    assert parts == {**parts, **{name: (usual / name).read_bytes() for name in ("model.wasm", "params.bin")}}
    # A reader that is given the bytes in their order has the graph first, and knows from it how many follow.
    assert data.index(b'{"sterna":') == 27
    for name, row in json.loads(parts["graph.json"])["files"].items():
        if name in parts:
            assert (row["bytes"], row["hash"]) == (len(parts[name]), hash64(parts[name]))


def test_what_is_no_bundle_of_one_file(tmp_path: Path) -> None:
    place = compile_to(tmp_path / "one", digits().file, "browser", single_file=True)
    whole = (place / "model.wasm").read_bytes()
    library = parts_of_one_file(whole)["model.wasm"]
    for data in (b"", library, whole[:-1], whole + b"\0\1\0", library + whole[8:], b"\0asm\1\0\0\0\0"):
        with pytest.raises(ValueError, match=r"one file|WebAssembly"):
            parts_of_one_file(data)


@pytest.mark.parametrize(
    ("target", "options", "says"),
    [
        ("host", {"single_file": True}, "no single-file form"),
        ("browser", {"single_file": True, "all_variants": True}, "cannot hold several variants"),
        ("wasi", {"all_variants": True}, "has no variants"),
    ],
)
def test_packagings_that_do_not_exist(target: str, options: dict[str, bool], says: str, tmp_path: Path) -> None:
    with pytest.raises(SternaError, match=f"E0203.*{says}"):
        compile_to(tmp_path / "bundle", digits().file, target, **options)


def test_constants_that_a_module_does_not_export() -> None:
    with pytest.raises(ValueError, match="no constant here"):
        exported_constant(b"\0asm\1\0\0\0", "here")
