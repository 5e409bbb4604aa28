"""Descriptions of targets: TOML files beside this module, in the directories of `STERNA_TARGETS`, or at a path given in
place of a name. Keys are the fields of `Target`; `extends` names a description to start from. One that takes features
away does not keep the capabilities that hung on them.

`NAME-musl` is the target NAME for systems whose C library is musl, of every target whose triple is one of GNU's Linux.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from sterna.errors import Diagnostic, SternaError
from sterna.intrinsics import INTRINSICS as PROVIDED
from sterna.intrinsics import Form
from sterna.ir.memory import Memory
from sterna.targets.features import contradictions, supported
from sterna.targets.intrinsics import TABLE as INTRINSICS
from sterna.targets.intrinsics import declared_intrinsic, lost_memories, read_intrinsics
from sterna.targets.memories import TABLE as MEMORIES
from sterna.targets.memories import read_memories
from sterna.targets.sanity import nonsense
from sterna.targets.self_test import passes_self_test
from sterna.targets.tables import keys_fix, line_of, record_of, wanted
from sterna.targets.target import Device, Flash, Target, Threads
from sterna_runtime.recipe import this_machine

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same module under its older name


def load_target(name: str) -> Target:
    """The target of that name, or described by that file.

    Raises:
        SternaError: E0201 no such target, E0202 a malformed description.
    """
    if name == "host":
        return host()
    return _load(name, ())


def _load(name: str, above: tuple[Path, ...]) -> Target:
    """A target by name or file; `above`: the descriptions that start from it."""
    path = Path(name) if name.endswith(".toml") else _find(name)
    if name.endswith(".toml") and path is not None and not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        fix = "check the path; `sterna targets` lists the targets that need no file"
        raise SternaError(Diagnostic("E0201", f"the target description {name} {what}", (), fix))
    if path is None and (found := _with_musl(name, above)) is not None:
        return found
    if path is None or not path.is_file():
        known = target_names()
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise SternaError(
            Diagnostic(
                "E0201",
                f'no target "{name}"',
                (f"known targets: {', '.join(known)}",),
                f"{hint}`sterna targets` describes them; a path to a .toml file adds one",
            )
        )
    if path in above:
        title = f"a description that starts from itself: {' <- '.join(each.name for each in (path, *above))}"
        raise SternaError(
            Diagnostic("E0202", title, (line_of(above[0], "extends"),), "take `extends` out of one of them")
        )
    return _read(path, above)


def _with_musl(name: str, above: tuple[Path, ...]) -> Target | None:
    """The target of a name that ends in MUSL; None where it is none of GNU's Linux, or does not end so."""
    if not name.endswith(MUSL) or _find(name.removesuffix(MUSL)) is None:
        return None
    target = _load(name.removesuffix(MUSL), above)
    if (found := _GLIBC.fullmatch(target.triple)) is None:
        return None
    return replace(
        target,
        name=name,
        description=f"{target.description}, with musl (Alpine, OpenWrt)",
        triple=f"{found[1]}musl{found[2]}",
        llvm_triple=target.llvm_triple.replace("-gnu", "-musl"),
    )


def target_names() -> list[str]:
    names = {p.stem for d in _directories() for p in d.glob("*.toml")}
    return ["host", *sorted(names)]


@lru_cache(maxsize=1)
def host() -> Target:
    """This machine. Features come from the processor itself, never from its model name; tiles must pass a test, as the
    operating system says who may use them."""
    features = {k for k, on in dict(llvm.get_host_cpu_features()).items() if on}
    machine = this_machine().lower()
    if machine in ("x86_64", "amd64"):
        able = (load_target(name) for name, needed in _LEVELS if features >= needed)
        base = next(t for t in able if not t.int_tile or passes_self_test(t.name))
    elif machine in ("aarch64", "arm64"):
        base = next(load_target(name) for name, needed in _ARM_LEVELS if features >= needed)
    else:
        base = load_target("c99")
        return replace(base, name="host", library="")
    triple, llvm_triple, library = host_system(machine)
    base = replace(
        base,
        name="host",
        description=f"this machine, {base.description}",
        triple=triple,
        llvm_triple=llvm_triple,
        library=library,
    )
    return replace(base, cores=os.cpu_count() or 1, runs_on="native")


def beside(device: Device) -> Target:
    """What kernels on the CPU are compiled for beside a device, unless a caller names it: what the device's description
    says, but this machine itself where its system loads such libraries."""
    if not device.host:
        return host()
    declared = load_target(device.host)
    return host() if host().library == declared.library else declared


#: What the name of a target for systems with musl ends in.
MUSL = "-musl"
#: Of a triple: what stands before the C library's name, and the ABI after it.
_GLIBC = re.compile(r"(.+-linux-)gnu(|eabihf|eabi)(?:\.[\d.]+)?")
_OWN = Path(__file__).parent
#: Tables of a description that are one record each.
_RECORDS: dict[str, type[Any]] = {"threads": Threads, "device": Device, "flash": Flash}
_V3 = frozenset({"avx2", "fma", "bmi2", "f16c"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-64-v4-amx", _V4 | {"avx512vnni", "avx512bf16", "avx512fp16", "amx-tile", "amx-int8"}),
    ("x86-64-v4-bf16", _V4 | {"avx512vnni", "avx512bf16"}),
    ("x86-64-v4-vnni", _V4 | {"avx512vnni"}),
    ("x86-64-v4", _V4),
    ("x86-64-v3-vnni", _V3 | {"avxvnni"}),
    ("x86-64-v3", _V3),
    ("x86-64-v2", frozenset()),
)
_ARM_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("arm64-bf16", frozenset({"dotprod", "i8mm", "fullfp16", "fp16fml", "bf16"})),
    ("arm64-i8mm", frozenset({"dotprod", "i8mm"})),
    ("arm64-fp16", frozenset({"dotprod", "fullfp16"})),
    ("arm64-dotprod", frozenset({"dotprod"})),
    ("arm64", frozenset()),
)


def host_system(machine: str) -> tuple[str, str, str]:
    """(zig triple, LLVM triple, library name) of this operating system."""
    arch = "x86_64" if machine in ("x86_64", "amd64") else "aarch64"
    if sys.platform == "darwin":
        minimum = "11.0"
        return (
            f"{arch}-macos.{minimum}",
            f"{'arm64' if arch == 'aarch64' else arch}-apple-macosx{minimum}",
            "model.dylib",
        )
    if sys.platform == "win32":
        return f"{arch}-windows-gnu", f"{arch}-pc-windows-gnu", "model.dll"
    glibc = "2.17"
    return f"{arch}-linux-gnu.{glibc}", f"{arch}-unknown-linux-gnu", "model.so"


def _directories() -> list[Path]:
    extra = [Path(p) for p in os.environ.get("STERNA_TARGETS", "").split(os.pathsep) if p]
    return [*extra, _OWN]


def _find(name: str) -> Path | None:
    return next((d / f"{name}.toml" for d in _directories() if (d / f"{name}.toml").is_file()), None)


def _read(path: Path, above: tuple[Path, ...] = ()) -> Target:
    where = (str(path),)
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise SternaError(
            Diagnostic(
                "E0202",
                f"target description cannot be read: {e}",
                where,
                "write it as the files `sterna targets` lists",
            )
        ) from None
    base = data.pop("extends", None)
    listed = {key: data.pop(key) for key in (MEMORIES, INTRINSICS) if key in data}
    records = {key: data.pop(key) for key in _RECORDS if key in data}
    known = {f.name: f for f in fields(Target) if f.name not in ("file", *_RECORDS)}
    unknown = sorted(set(data) - set(known))
    problems = [
        Diagnostic("E0202", f"unknown key {key}", (line_of(path, key),), keys_fix(key, known)) for key in unknown
    ]
    if base is not None and not isinstance(base, str):
        problems.append(
            Diagnostic(
                "E0202", f"key extends has a value of type {type(base).__name__}", where, "it is a target's name"
            )
        )
    for key, value in data.items():
        if key in known and not _fits(str(known[key].type), value):
            problems.append(
                Diagnostic(
                    "E0202",
                    f"key {key} has a value of type {type(value).__name__}",
                    (line_of(path, key),),
                    wanted(str(known[key].type)),
                )
            )
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    if MEMORIES in listed:
        values[MEMORIES], wrong = read_memories(listed[MEMORIES], path)
        problems += wrong
    start = None if base is None or problems else _start(base, path, above)
    for key, given in records.items():
        values[key], wrong = _record(key, given, start, path)
        problems += wrong
    if problems:
        raise SternaError(problems)
    values.setdefault("name", path.stem)
    if "c_flags" in values:
        values["c_flags"] = tuple(_from_here(flag, path) for flag in values["c_flags"])
    values["file"] = "" if path.parent == _OWN else str(path)
    missing = [k for k in ("description", "triple", "llvm_triple") if start is None and k not in values]
    if missing:
        raise SternaError(
            Diagnostic(
                "E0202",
                f"target description lacks {', '.join(missing)}",
                where,
                "add the keys, or `extends` a target that has them",
            )
        )
    if problems := _read_intrinsics(values, listed, start, path):
        raise SternaError(problems)
    return _consistent(Target(**values) if start is None else replace(start, **values), frozenset(values), path)


def _record(key: str, given: Any, start: Target | None, path: Path) -> tuple[Any, list[Diagnostic]]:
    """What a description says in a table of one record, which changes a part of what it starts from."""
    kind, base = _RECORDS[key], getattr(start, key, None)
    if base is not None and isinstance(given, dict):
        inherited = {name: list(old) if isinstance(old, tuple) else old for name, old in vars(base).items()}
        given = {**inherited, **given}
    values, problems = record_of(path, key, given, fields(kind))
    return (None if problems else kind(**values)), problems


def _from_here(flag: str, path: Path) -> str:
    """A flag that names a folder of headers, as seen from the description; compilers run elsewhere."""
    return f"-I{(path.parent / flag[2:]).resolve()}" if flag.startswith("-I") and len(flag) > len("-I") else flag


def _start(base: str, path: Path, above: tuple[Path, ...]) -> Target:
    """The target that a description starts from."""
    try:
        return host() if base == "host" else _load(base, (path, *above))
    except SternaError as problem:
        raise problem.within(line_of(path, "extends")) if "E0201" in problem.codes else problem from None


def _read_intrinsics(
    values: dict[str, Any], listed: Mapping[str, Any], start: Target | None, path: Path
) -> list[Diagnostic]:
    """Reads the intrinsics that a description declares into its values; what is wrong with those and with the names of
    the others."""
    inherited = start.intrinsics if start is not None else ()
    if INTRINSICS in listed:
        memories: Sequence[Memory] = values.get(MEMORIES, start.memories if start is not None else ())
        values[INTRINSICS], problems = read_intrinsics(listed[INTRINSICS], path, [m.name for m in memories])
        if problems:
            return problems
    declared = {d.name: declared_intrinsic(d) for d in values.get(INTRINSICS, inherited)}
    problems = []
    for key, form in (("int_dot", Form.VECTORS), ("float_dot", Form.VECTORS), ("int_tile", Form.TILES)):
        names = [i.name for i in (*PROVIDED.values(), *declared.values()) if i.form is form]
        problems += (
            Diagnostic("E0202", f"there is no intrinsic {name}", (str(path),), f"{key} takes {', '.join(names)}")
            for name in sorted(set(values.get(key, ())) - set(names))
        )
    return problems


def _consistent(target: Target, stated: frozenset[str], path: Path) -> Target:
    """A target whose capabilities are among what its features give: what it took over and can no longer have is gone.

    Raises:
        SternaError: E0202, what the description itself states does not go together.
    """
    target = replace(target, **{key: value for key, value in supported(target).items() if key not in stated})
    names = [m.name for m in target.memories]
    lost = [replace(c, key=INTRINSICS) for d in target.intrinsics for c in lost_memories(d, names)]
    found = [*nonsense(target), *lost] or contradictions(target)
    if problems := [Diagnostic("E0202", c.problem, (line_of(path, c.key),), c.fix) for c in found]:
        raise SternaError(problems)
    return target


def _fits(annotation: str, value: Any) -> bool:
    if annotation.startswith("tuple"):
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    return type(value).__name__ == annotation
