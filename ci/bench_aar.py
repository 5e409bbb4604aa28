"""Bytes of native code that an Android app with one model carries, by ABI, beside what other engines publish.

    ci/bench-aar                    MobileNetV2 of 8 bits, of the models in STERNA_MODELS, else ../shared/models
    ci/bench-aar MODEL --write      another model; puts the table into docs/android.md

Maven fetches the engines from Maven Central. Libraries count as they are loaded, weights and Java classes do not. Of
onnxruntime the library for Android is not published there: what is for servers, of the same machines, stands for it.
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

from sterna.api import options_of
from sterna.codegen.generators import DEFAULT, GENERATORS
from sterna.package import android
from support.android_app import ABIS
from support.tools import ROOT

MODEL = "mobilenet_v2_100_224_u8/model.tflite"
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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="ci/bench-aar", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = Path(os.environ.get("STERNA_MODELS", ROOT.parent / "shared" / "models"))
    parser.add_argument("model", nargs="?", type=Path, default=models / MODEL)
    parser.add_argument("--write", action="store_true", help="put the table into docs/android.md")
    parser.add_argument("--generator", default=DEFAULT, choices=list(GENERATORS), help="of the kernels")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sterna-aar-") as made:
        repository = android.android_package(given.model, options_of(generator=given.generator), made)
        parts = [libraries(aar, {abi: f"jni/{abi}/" for abi in ABIS}) for aar in sorted(repository.rglob("*.aar"))]
    ours = {abi: {name: size for part in parts for name, size in part[abi].items()} for abi in ABIS}
    lines = ["| | " + " | ".join(ABIS) + " |", "| --- |" + " ---: |" * len(ABIS)]
    runtime = "libsterna_jni.so"
    lines.append(_row("Sterna: the runtime", {abi: ours[abi][runtime] for abi in ABIS}))
    lines.append(
        _row("Sterna: the model's kernels", {abi: sum(ours[abi].values()) - ours[abi][runtime] for abi in ABIS})
    )
    lines.append(_row("**Sterna, together**", {abi: sum(ours[abi].values()) for abi in ABIS}))
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
