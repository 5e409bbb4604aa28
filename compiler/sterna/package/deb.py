"""A model as a Debian package, and one of the runtime, which all models share: the library, headers, `sterna-run`.

Written without any tool of Debian's. Programs are built by zig against the oldest glibc that is supported.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sterna import cache as caching
from sterna.bundle.install import Files, install
from sterna.cache import Cache, cache_directory
from sterna.codegen.render import render_template, resource
from sterna.package.debian_archive import Entry, Link, Program, kilobytes, package, zipped
from sterna.package.native import Native, read_native
from sterna.package.placing import placing
from sterna.scratch import scratch_folder
from sterna.toolchain.compilers import compiler_version, run
from sterna.toolchain.zig import zig
from sterna_runtime.advice import Advice, Option
from sterna_runtime.errors import Diagnostic, SternaError, error
from sterna_runtime.recipe import (
    DEVICES,
    FLAGS,
    SHARED_WITH_DEVICES,
    SOURCES,
    Platform,
    devices_of,
    library_name,
    this_platform,
)
from sterna_runtime.version import __version__

RUNTIME = "sterna-runtime"
#: Debian's architectures, names of folders for libraries, and the least machine that the runtime is built for, by the
#: first word of zig's triples. All models of an architecture share that package, whatever they were compiled for: armhf
#: is also what Raspberry Pi OS calls the first Raspberry Pi and the Zero.
_ARCHITECTURES = {
    "aarch64": ("arm64", "aarch64-linux-gnu", Platform("Linux", "aarch64")),
    "arm": ("armhf", "arm-linux-gnueabihf", Platform("Linux", "armv6l")),
    "x86_64": ("amd64", "x86_64-linux-gnu", Platform("Linux", "x86_64")),
    "riscv64": ("riscv64", "riscv64-linux-gnu", Platform("Linux", "riscv64")),
}
_GLIBC = re.compile(r"(\w+)-linux-(gnu|gnueabihf)\.(\d+\.\d+)")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{1,99}")
_VERSION = re.compile(r"\d[A-Za-z0-9.+~]*", re.ASCII)
_PERSON = re.compile(r"[^<>\n]+ <[^<>\s@]+@[^<>\s@]+>")
_NOBODY = "Sterna <sterna@example.com>"
_SONAME = f"libsterna.so.{__version__.partition('.')[0]}"
_HARDENED = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,--build-id=sha1", "-s")


@dataclass(frozen=True)
class _System:
    """Where packages of an architecture go, and what they need."""

    architecture: str
    folder: str
    built_for: Platform

    @property
    def glibc(self) -> str:
        """The version that the runtime needs."""
        found = _GLIBC.fullmatch(self.built_for.target)
        assert found is not None
        return found[3]

    @property
    def machine(self) -> tuple[str, ...]:
        """How zig is told of the machine."""
        processor = self.built_for.processor
        return ("-target", self.built_for.target, *((f"-mcpu={processor}",) if processor else ()))

    @property
    def libraries(self) -> str:
        return f"usr/lib/{self.folder}"


def deb_packages(
    bundle: str | os.PathLike[str],
    output: str | os.PathLike[str],
    name: str | None = None,
    version: str = "1.0.0",
    maintainer: str | None = None,
) -> Path:
    """Writes the packages of a model and of the runtime into a folder, in which others may be.

    Args:
        name: of the model's package; by default `sterna-` and the model's name.
        maintainer: `Name <address>`; by default what DEBFULLNAME and DEBEMAIL say.

    Raises:
        SternaError: E0006 or E0503 to E0507, it is no whole bundle for Linux with glibc; E0203 Debian takes no such
            name, version or maintainer; E0204 the place is taken or cannot be written; E0402 there is no zig.
    """
    native = read_native(bundle, "Linux")
    system = _system(native, Path(bundle))
    own = name or f"sterna-{native.model.replace('_', '-').lower()}"
    person = maintainer or _person()
    _check(own, version, person)
    made = {
        f"{RUNTIME}_{__version__}_{system.architecture}.deb": _runtime(system, person),
        f"{own}_{version}_{system.architecture if native.has_machine_code else 'all'}.deb": _model(
            native, system, own, version, person
        ),
    }
    place = Path(output)
    fix = Advice(Option("version", "1.0.1"), ", or name another directory")
    with placing(place, fix):
        missing = {file: data for file, data in made.items() if not _same(place / file, data)}
        if missing:
            install(place, Files(missing, tuple(missing)[-1:]))
    return place


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _system(native: Native, place: Path) -> _System:
    """Raises E0507, Debian has no such architecture, or another C library."""
    # A model that drivers compile runs on any machine; the runtime is then for this one.
    found = _GLIBC.fullmatch(native.triple if native.has_machine_code else this_platform().target)
    if found is None or found[1] not in _ARCHITECTURES or native.linked:
        fix = Advice("compile the model for it: ", Option("target", "raspberrypi4"))
        title = f"the bundle was compiled for {native.triple or 'any C compiler'}, which is no Debian with glibc"
        raise error("E0507", title, str(place), fix=fix)
    return _System(*_ARCHITECTURES[found[1]])


def _person() -> str:
    name, address = (os.environ.get(key, "").strip() for key in ("DEBFULLNAME", "DEBEMAIL"))
    return f"{name} <{address}>" if name and address else _NOBODY


def _check(name: str, version: str, person: str) -> None:
    """Raises E0203 for all that Debian does not take."""
    wrong = []
    if not _NAME.fullmatch(name) or name == RUNTIME:
        fix = Advice(Option("name", "my-model"))
        wrong.append(Diagnostic("E0203", f'Debian does not take the name "{name}"', (), fix))
    if not _VERSION.fullmatch(version):
        fix = Advice(Option("version", "1.0.0"))
        wrong.append(Diagnostic("E0203", f'Debian does not take the version "{version}"', (), fix))
    if not _PERSON.fullmatch(person):
        wrong.append(
            Diagnostic("E0203", f'"{person}" names no maintainer', (), 'as in "Ada Lovelace <ada@example.org>"')
        )
    if wrong:
        raise SternaError(wrong)


def _model(native: Native, system: _System, name: str, version: str, person: str) -> bytes:
    """The package of a model: its bundle below the libraries, as it holds machine code; else for all machines."""
    system = system if native.has_machine_code else replace(system, architecture="all")
    folder = f"{system.libraries if native.has_machine_code else 'usr/share'}/sterna/{name}"
    files: dict[str, Entry] = {f"{folder}/{file}": data for file, data in native.files.items()}
    title = f"machine-learning model {native.model}, compiled"
    needs = f"{RUNTIME} (>= {__version__})"
    body = f"A bundle for sterna-run and libsterna in /{folder}."
    return _package(system, name, version, person, files, title, body, needs, "science", {})


def _runtime(system: _System, person: str) -> bytes:
    """The package of the runtime."""
    root = resource("runtime_c")
    library = _built(system, _SONAME, lambda place: _library(system, place))
    real = f"libsterna.so.{__version__}"
    files: dict[str, Entry] = {
        f"{system.libraries}/{real}": library,
        f"{system.libraries}/{_SONAME}": Link(real),
        f"{system.libraries}/libsterna.so": Link(_SONAME),
        f"{system.libraries}/pkgconfig/sterna.pc": _text("sterna.pc", folder=system.folder, version=__version__),
        "usr/bin/sterna-run": Program(_built(system, "sterna-run", lambda place: _tool(system, place, library))),
        "usr/share/man/man1/sterna-run.1.gz": zipped(_text("sterna-run.1", version=__version__)),
    }
    files |= {
        f"{system.libraries}/{library_name('Linux', kind)}": _built(
            system, library_name("Linux", kind), partial(_driver, system, kind)
        )
        for kind in devices_of("Linux")
    }
    headers = (
        "sterna.h",
        "sterna.hpp",
        "sterna_kernel.h",
        "sterna_device.h",
        *(f"sterna_{kind}.h" for kind in devices_of("Linux")),
    )
    files |= {f"usr/include/{name}": (root / "include" / name).read_bytes() for name in headers}
    title = "runtime for machine-learning models compiled by Sterna"
    body = "The shared library with its headers, what drives GPUs, and sterna-run, which runs a model on files."
    needs = f"libc6 (>= {system.glibc})"
    control = {
        "shlibs": f"libsterna {__version__.partition('.')[0]} {RUNTIME} (>= {__version__})\n".encode(),
        "triggers": b"activate-noawait ldconfig\n",
    }
    return _package(system, RUNTIME, __version__, person, files, title, body, needs, "libs", control)


def _package(
    system: _System, name: str, version: str, person: str, files: dict[str, Entry], title: str, body: str, needs: str,
    section: str, control: Mapping[str, bytes],
) -> bytes:  # fmt: skip
    documents = f"usr/share/doc/{name}"
    values = {
        "name": name,
        "version": version,
        "person": person,
        "title": title,
        "body": "\n ".join(textwrap.wrap(body, 76)),
        "needs": needs,
        "section": section,
        "architecture": system.architecture,
        "runtime": name == RUNTIME,
    }
    files = {
        **files,
        f"{documents}/changelog.gz": zipped(_text("changelog", **values)),
        f"{documents}/copyright": _text("copyright", **values),
    }
    return package({"control": _text("control", **values, kilobytes=kilobytes(files)), **control}, files)


def _built(system: _System, name: str, command: Callable[[Path], list[str]]) -> bytes:
    """What zig makes, built once of the same sources."""
    root = resource("runtime_c")
    sources = [path.read_bytes() for path in sorted(root.glob("*/*.[ch]"))]
    compiler = zig()[0]

    def make() -> bytes:
        with scratch_folder("deb") as scratch:
            run(command(scratch), scratch, f"{name} for {system.architecture}")
            return (scratch / name).read_bytes()

    key = caching.key(
        "deb", compiler_version(compiler), repr((system, name, FLAGS, SOURCES, DEVICES, _HARDENED)), *sources
    )
    return Cache("libraries", cache_directory()).get_or_make(key, make)


def _library(system: _System, scratch: Path) -> list[str]:
    root = resource("runtime_c")
    files = [*(root / "src" / f"{name}.c" for name in SOURCES), root / "port" / "posix.c"]
    command = zig("cc", *FLAGS, *system.machine, f"-I{root / 'include'}", "-shared", "-fPIC", *map(str, files))
    return [*command, f"-Wl,-soname,{_SONAME}", *_HARDENED, "-lpthread", "-ldl", "-o", str(scratch / _SONAME)]


def _driver(system: _System, kind: str, scratch: Path) -> list[str]:
    """The library that drives devices of a kind. It shares records with the runtime, and has what it calls of it."""
    root, name = resource("runtime_c"), library_name("Linux", kind)
    files = [root / "devices" / f"{each}.c" for each in DEVICES[kind]]
    files += [*(root / "src" / f"{each}.c" for each in SHARED_WITH_DEVICES), root / "port" / "posix.c"]
    command = zig("cc", *FLAGS, *system.machine, f"-I{root / 'include'}", "-shared", "-fPIC", *map(str, files))
    hidden = ("-Wl,--gc-sections", "-Wl,-Bsymbolic", f"-Wl,-soname,{name}")
    return [*command, *hidden, *_HARDENED, "-lpthread", "-ldl", "-o", str(scratch / name)]


def _tool(system: _System, scratch: Path, library: bytes) -> list[str]:
    root = resource("runtime_c")
    (scratch / "libsterna.so").write_bytes(library)
    command = zig(
        "cc", "-std=c99", "-O2", "-fno-sanitize=all", *system.machine, f"-I{root / 'include'}", "-fPIE", "-pie"
    )
    sources = [root / "tools" / "sterna_run.c", root / "src" / "json.c"]  # as CMakeLists.txt has it
    return [*command, *map(str, sources), *_HARDENED, f"-L{scratch}", "-lsterna", "-o", str(scratch / "sterna-run")]


def _text(template: str, **values: object) -> bytes:
    return render_template(f"package/deb/{template}.j2", **values).encode()
