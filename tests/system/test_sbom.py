"""Bills of materials: valid CycloneDX, right hashes, the same each time."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from sterna.api import compile_to
from sterna.bundle import cyclonedx
from sterna.cli import program
from sterna.debug import sbom
from sterna.errors import SternaError
from sterna.version import __version__
from support import handmade_bundle
from support.tools import ROOT
from support.trained import digits


def compiled(place: Path, model: Any, **options: Any) -> Path:
    compile_to(place, model, **options)
    return place


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("sbom") / "digits", digits().file)


def inspect(*arguments: str) -> tuple[str, dict[str, Any]]:
    """What `sterna inspect --sbom` prints, as it is and as JSON that the specification's schema accepts."""
    done = CliRunner().invoke(program, ["inspect", "--sbom", *arguments])
    assert done.exit_code == 0, done.output
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(done.output) is None
    return done.output, json.loads(done.output)


def by_ref(bill: dict[str, Any]) -> dict[str, Any]:
    return {part["bom-ref"]: part for part in bill["components"]}


def test_of_a_bundle(bundle: Path) -> None:
    text, bill = inspect(str(bundle))
    parts = by_ref(bill)
    files = {part["name"]: part["hashes"][0]["content"] for part in parts.values() if part["type"] == "file"}
    assert files == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in bundle.iterdir()}
    assert parts["made-by:sterna"]["version"] == __version__
    assert parts["made-by:ziglang"]["purl"] == f"pkg:pypi/ziglang@{metadata.version('ziglang')}"
    assert parts["runtime"]["licenses"] == [{"expression": "Apache-2.0"}]
    [model] = bill["metadata"]["component"]["pedigree"]["ancestors"]
    assert model["hashes"][0]["content"] == hashlib.sha256(Path(digits().file).read_bytes()).hexdigest()
    assert {"name": "sterna:format", "value": "onnx"} in model["properties"]
    assert set(bill["dependencies"][0]["dependsOn"]) == set(parts)
    assert inspect(str(bundle))[0] == text, "the same each time"


def test_the_time_is_given_or_missing(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "timestamp" not in inspect(str(bundle))[1]["metadata"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert inspect(str(bundle))[1]["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"


def test_of_other_toolchains_and_of_models_from_memory(tmp_path: Path) -> None:
    import onnx

    place = compiled(tmp_path / "digits", onnx.load(digits().file), generator="llvm")
    bill = inspect(str(place))[1]
    llvm = by_ref(bill)["made-by:llvmlite"]
    assert llvm["purl"] == f"pkg:pypi/llvmlite@{metadata.version('llvmlite')}"
    assert "LLVM" in llvm["version"]
    assert "hashes" not in bill["metadata"]["component"]["pedigree"]["ancestors"][0]
    firmware = inspect(str(compiled(tmp_path / "firmware", digits().file, target="cortex-m4")))[1]
    assert {"model.c", "params.c", "kernels.c"} <= {part["name"] for part in firmware["components"]}


def test_of_a_hostile_or_damaged_bundle(tmp_path: Path) -> None:
    params, library = handmade_bundle.params(), handmade_bundle.kernel_library()
    graph = handmade_bundle.graph(params, library)
    changes: list[tuple[dict[str, Any], str | None]] = [
        ({"producer": "a\x1b[31m\u202e\u009bb\x1b]0;y", "source": {"sha256": "no", "format": 7}}, None),
        ({"model": "a\x1b[31m\u202e\u009bb"}, "E0504"),
        ({"target": []}, "E0504"),
        ({"target": {"name": "host"}}, "E0504"),
        ({"options": 5}, "E0504"),
        ({"source": [1]}, "E0504"),
    ]
    for number, (change, code) in enumerate(changes):
        place = handmade_bundle.write(tmp_path / str(number), {**graph, **change})
        if code is None:
            assert inspect(str(place))[0].isascii()
            continue
        with pytest.raises(SternaError) as caught:
            sbom.bundle_bill(place)
        assert caught.value.diagnostics[0].code == code
    place = handmade_bundle.write(tmp_path / "damaged", graph)
    (place / "params.bin").write_bytes(bytes(len(params)))
    with pytest.raises(SternaError) as caught:
        sbom.bundle_bill(place)
    assert caught.value.diagnostics[0].code == "E0505"


def test_of_the_installation() -> None:
    text, bill = inspect()
    subject, parts = bill["metadata"]["component"], by_ref(bill)
    assert (subject["name"], subject["version"]) == ("sterna", __version__)
    runtimes = {part["name"]: part for part in subject["components"]}
    kept = {part["name"]: part["hashes"][0]["content"] for part in runtimes["sterna runtime_c"]["components"]}
    assert kept["runtime_c/src/json.c"] == hashlib.sha256((ROOT / "runtime_c/src/json.c").read_bytes()).hexdigest()
    assert "sterna templates" in runtimes
    hashes = {part["name"] for part in runtimes["sterna runtime_js/src"]["components"]}
    assert "runtime_js/src/hash-module.js" in hashes
    for name in ("numpy", "onnx", "ziglang", "llvmlite", "click", "jinja2", "MarkupSafe"):  # the last: jinja2's
        part = parts[cyclonedx.package_url(name, metadata.version(name))]
        assert part["version"] == metadata.version(name)
        assert part["licenses"], name
    direct = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}[subject["bom-ref"]]
    assert cyclonedx.package_url("numpy", metadata.version("numpy")) in direct
    assert not any("pytest" in ref for ref in parts), "only what it runs with"
    assert inspect()[0] == text


def test_of_the_wheel(tmp_path: Path) -> None:
    """What hatch_build.py puts into .dist-info/sboms."""
    library = tmp_path / "libsterna.so"
    library.write_bytes(b"runtime")
    requirements = sbom._project_requirements((ROOT / "pyproject.toml").read_text())
    assert len(requirements) > 8
    resources = {name: ROOT / name for name in cyclonedx.VENDORED}
    bill = cyclonedx.wheel_document("1.2", resources, [library], requirements)
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(cyclonedx.text(bill)) is None
    assert {part["name"] for part in bill["components"]} == {cyclonedx.requirement_name(r) for r in requirements}
    compiled = bill["metadata"]["component"]["components"][-1]
    assert compiled["hashes"][0]["content"] == hashlib.sha256(b"runtime").hexdigest()
    assert bill == cyclonedx.wheel_document("1.2", resources, [library], requirements)


def test_what_has_no_bill(tmp_path: Path) -> None:
    for arguments, code in ((["inspect", "--sbom", str(digits().file)], "E0006"), (["inspect"], "E0006")):
        done = CliRunner().invoke(program, arguments)
        assert done.exit_code != 0
        assert code in done.output


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("numpy>=1.24", "numpy"),
        ("ruamel.yaml[x]~=1; python_version < '4'", "ruamel.yaml"),
        ("x; extra == 'test'", None),
    ],
)
def test_requirements(requirement: str, name: str | None) -> None:
    assert cyclonedx.requirement_name(requirement) == name
