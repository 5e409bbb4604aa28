"""Bytes of native code that an Android app with one model carries, by ABI, beside what other engines publish.

    ci/bench-aar --write            MobileNetV2 in float32 and, of the models in STERNA_MODELS, else ../shared/models,
                                    in uint8; puts the table into docs/android.md
    ci/bench-aar MODEL              another model

Maven fetches the engines from Maven Central. Libraries count as they are loaded, weights and Java classes do not. Of
onnxruntime the library for Android could not be fetched from there: what is for servers, of the same machines, stands
for it. ExecuTorch's could not either.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import onnx

from sterna.api import options_of
from sterna.codegen.generators import DEFAULT, GENERATORS
from sterna.package import android
from support.android_app import ABIS
from support.networks import mobilenet_v2
from support.tools import ROOT

MODEL = "mobilenet_v2_100_224_u8/model.tflite"
RUNTIME = "libsterna_jni.so"
PAGE = ROOT / "docs" / "android.md"
TABLE = re.compile(r"(?<=<!-- ci/bench-aar -->\n).*?(?=\n<!-- end -->)", re.S)
#: Artifacts, and where their libraries lie, by ABI.
ENGINES = {
    "org.tensorflow:tensorflow-lite:2.16.1:aar": {abi: f"jni/{abi}/" for abi in ABIS},
    "com.microsoft.onnxruntime:onnxruntime:1.20.0:jar": {
        "arm64-v8a": "ai/onnxruntime/native/linux-aarch64/", "x86_64": "ai/onnxruntime/native/linux-x64/",
    },
}  # fmt: skip


def fetched(artifact: str) -> Path:
    """The file of an artifact, in Maven's own repository."""
    command = ["mvn", "-B", "-q", "-ntp", "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{artifact} cannot be fetched\n{done.stdout[-2000:]}")
    group, name, version, kind = artifact.split(":")
    home = Path(os.environ.get("MAVEN_REPOSITORY", Path.home() / ".m2" / "repository"))
    return home / group.replace(".", "/") / name / version / f"{name}-{version}.{kind}"


def libraries(place: Path, folders: dict[str, str]) -> dict[str, dict[str, int]]:
    """The bytes of every library in an archive, by ABI and name."""
    with zipfile.ZipFile(place) as archive:
        rows = [row for row in archive.infolist() if row.filename.endswith(".so")]
    return {
        abi: {Path(row.filename).name: row.file_size for row in rows if row.filename.startswith(folder)}
        for abi, folder in folders.items()
    }


def _own(place: Path) -> dict[str, Path]:
    """The models that are measured where none is named."""
    onnx.save(mobilenet_v2(), place / "mobilenet_v2.onnx")
    models = Path(os.environ.get("STERNA_MODELS", ROOT.parent / "shared" / "models"))
    return {"MobileNetV2, float32": place / "mobilenet_v2.onnx", "MobileNetV2, uint8": models / MODEL}


def _sizes(model: Path, generator: str, place: Path) -> dict[str, dict[str, int]]:
    """The bytes of every library in a model's package, by ABI and name."""
    repository = android.android_package(model, options_of(generator=generator), place)
    parts = [libraries(aar, {abi: f"jni/{abi}/" for abi in ABIS}) for aar in sorted(repository.rglob("*.aar"))]
    return {abi: {name: size for part in parts for name, size in part[abi].items()} for abi in ABIS}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="ci/bench-aar", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--write", action="store_true", help="put the table into docs/android.md")
    parser.add_argument("--generator", default=DEFAULT, choices=list(GENERATORS), help="of the kernels")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sterna-aar-") as made:
        place = Path(made)
        models = {given.model.stem: given.model} if given.model else _own(place)
        ours = {name: _sizes(model, given.generator, place / name) for name, model in models.items()}
    lines = ["| | " + " | ".join(ABIS) + " |", "| --- |" + " ---: |" * len(ABIS)]
    runtime = next(iter(ours.values()))
    lines.append(_row("Sterna: the runtime", {abi: runtime[abi][RUNTIME] for abi in ABIS}))
    for name, sizes in ours.items():
        kernels = {abi: sum(sizes[abi].values()) - sizes[abi][RUNTIME] for abi in ABIS}
        lines.append(_row(f"Sterna: kernels of {name}", kernels))
    for artifact, folders in ENGINES.items():
        found = libraries(fetched(artifact), folders)
        _, name, version, _ = artifact.split(":")
        lines.append(_row(f"{name} {version}", {abi: sum(sizes.values()) for abi, sizes in found.items()}))
    table = "\n".join(lines)
    print(table)
    if given.write:
        text, times = TABLE.subn(lambda _: table, PAGE.read_text())
        assert times == 1, "docs/android.md has no place for it"
        PAGE.write_text(text)


def _row(name: str, sizes: dict[str, int]) -> str:
    return f"| {name} | " + " | ".join(f"{sizes[abi] / 1000:,.0f} KB" if abi in sizes else "" for abi in ABIS) + " |"


if __name__ == "__main__":
    main()
