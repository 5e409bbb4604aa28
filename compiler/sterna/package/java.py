"""Java sources as classes, and archives that are the same bytes every time."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping

from sterna.codegen.render import resource
from sterna.package.natives import java_home
from sterna.scratch import scratch_folder
from sterna.toolchain.compilers import run

_TIME = (2024, 1, 1, 0, 0, 0)


def sources() -> dict[str, bytes]:
    """The runtime's own, by path."""
    root = resource("runtime_android") / "src" / "main" / "java"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.java"))}


def classes(given: Mapping[str, bytes], what: str) -> dict[str, bytes]:
    """The classes of Java sources, by path, which may use the runtime's and what is known of Android's.

    They are of Java 8: for a later one the compiler calls `ByteBuffer.flip` and its like as that has them, with a
    result of another type, and Android 6 has no such methods.

    Raises:
        SternaError: E0402, there is no JDK; E0403, it rejected the sources.
    """
    stubs = resource("runtime_android") / "stubs"
    runtime = resource("runtime_android") / "src" / "main" / "java"
    with scratch_folder("java") as root:
        for name, text in given.items():
            (root / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "in" / name).write_bytes(text)
        command = [str(java_home() / "bin" / "javac"), "--release", "8", "-encoding", "UTF-8", "-g:none"]
        command += ["-XDstringConcat=inline", "-Xlint:all,-options", "-Werror", "-implicit:none", "-proc:none"]
        command += ["-sourcepath", f"{stubs}{os.pathsep}{runtime}", "-d", str(root / "out")]
        run([*command, *(str(root / "in" / name) for name in given)], root, what)
        return {
            path.relative_to(root / "out").as_posix(): path.read_bytes()
            for path in sorted((root / "out").rglob("*.class"))
        }


def archive(files: Mapping[str, bytes], stored: frozenset[str] = frozenset()) -> bytes:
    """A zip file; the entries named in `stored` are not compressed."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            made.writestr(entry, content)
    return data.getvalue()
