"""The binary interface is written once, in `sterna_runtime.abi`; C, JavaScript, Python and the pages say the same."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sterna.ir import dtypes
from sterna_runtime import abi, library
from sterna_runtime.abi.records import CALL, KERNEL, KERNEL_RECORDS, LIBRARY, RUNTIME_RECORDS, Record
from sterna_runtime.error_codes import CODES
from support.tools import ROOT, ZIG, need, run

RUNTIME = ROOT / "runtime_c"
#: Triple as zig spells it -> bytes of a pointer. On all of these, numbers are aligned by their size.
MACHINES = {
    "x86_64-freestanding": 8,
    "aarch64-freestanding": 8,
    "riscv64-freestanding": 8,
    "thumb-freestanding-eabi": 4,
    "wasm32-freestanding": 4,
}


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_abi", ROOT / "ci" / "abi.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sources_of_the_runtimes_are_up_to_date() -> None:
    stale = [str(path.relative_to(ROOT)) for path, text in generator().files().items() if path.read_text() != text]
    assert stale == [], "run python ci/abi.py"


def test_a_changed_definition_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number, a status, a member: what differs is written where its name is defined."""
    module = generator()
    kernel_header = RUNTIME / "include" / "sterna_kernel.h"
    text = kernel_header.read_text()
    assert module.placed(text, "#define STERNA_ABI 7u") == text.replace("STERNA_ABI 1u", "STERNA_ABI 7u")
    shorter = Record("sterna_kernel", KERNEL.members[:2])
    assert "scratch_bytes" not in module.placed(text, module.structure(shorter))
    with pytest.raises(SystemExit, match="NOWHERE is defined 0 times"):
        module.placed(text, "#define NOWHERE 1")


def assertions(records: tuple[Record, ...], pointer: int) -> list[str]:
    lines = [f'_Static_assert(sizeof(void *) == {pointer}, "");']
    for record in records:
        lines.append(f'_Static_assert(sizeof({record.name}) == {record.size(pointer)}, "{record.name}");')
        for name, at in record.offsets(pointer).items():
            lines.append(f'_Static_assert(offsetof({record.name}, {name}) == {at}, "{record.name}.{name}");')
    return lines


@pytest.mark.parametrize("machine", MACHINES)
def test_c_compilers_lay_records_out_so(machine: str, tmp_path: Path) -> None:
    check_layout(machine, (*KERNEL_RECORDS, *RUNTIME_RECORDS), MACHINES[machine], tmp_path)


def test_machines_that_align_long_numbers_less_have_the_same_kernel_records(tmp_path: Path) -> None:
    check_layout("x86-freestanding", KERNEL_RECORDS, 4, tmp_path)


def test_a_wrong_layout_does_not_compile(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"sterna_call\.params"):
        check_layout("x86_64-freestanding", (Record("sterna_call", (CALL.members[0], CALL.members[4])),), 8, tmp_path)


def check_layout(machine: str, records: tuple[Record, ...], pointer: int, folder: Path) -> None:
    source = folder / "layout.c"
    source.write_text("\n".join(['#include "sterna.h"', *assertions(records, pointer), ""]))
    flags = ["-std=c11", "-ffreestanding", "-c", "-o", folder / "layout.o", f"-I{RUNTIME / 'include'}"]
    run(*ZIG, "cc", "-target", machine, *flags, source)


def test_python_has_the_layout_of_this_machine() -> None:
    pointer = ctypes.sizeof(ctypes.c_void_p)
    found = {value.__doc__: value for value in vars(library).values() if isinstance(value, type(ctypes.Structure))}
    for record in RUNTIME_RECORDS:
        made: Any = found[record.name]
        assert ctypes.sizeof(made) == record.size(pointer)
        assert {name: getattr(made, name).offset for name, _ in made._fields_} == record.offsets(pointer)


def test_element_types() -> None:
    names = [name for name, _, _ in abi.DTYPES]
    assert sorted(names) == sorted((*dtypes.ALL, *dtypes.NARROW))
    assert [number for _, number, _ in abi.DTYPES] == list(range(1, len(names) + 1))
    for name, _, size in abi.DTYPES:
        assert dtypes.size(name) == size == dtypes.to_numpy(name).itemsize


def test_javascript_has_the_element_types(tmp_path: Path) -> None:
    script = tmp_path / "sizes.mjs"
    tensors = (ROOT / "runtime_js" / "src" / "tensors.js").as_uri()
    names = json.dumps([name for name, _, _ in abi.DTYPES])
    script.write_text(
        f"import {{ arrayType }} from {json.dumps(tensors)};\n"
        f"console.log(JSON.stringify({names}.map((name) => arrayType(name)?.BYTES_PER_ELEMENT)));\n"
    )
    assert json.loads(run(need("node", "runs the JavaScript"), script)) == [size for _, _, size in abi.DTYPES]


def test_javascript_has_the_layout_of_32_bits(tmp_path: Path) -> None:
    """Call records that it writes, and a library's records that it reads, with a number of its own in every member."""
    script = tmp_path / "layout.mjs"
    call, kernel, library = (record.offsets(4) for record in (CALL, KERNEL, LIBRARY))
    given = {"n_workers": 1, "params": 4096 + 64, "scratch": 8192, "dims": 512, "worker": 0, "barrier": 0, "pool": 0}
    head = {"size": LIBRARY.size(4), "abi": abi.ABI, "n_kernels": 1, "reserved": 71, "kernels": 640, "features": 72}
    entry = {"function": 5, "n_tasks": 6, "scratch_bytes": 7, "flags": 0, "reserved": 73}
    script.write_text(f"""
import {{ readTable, writeRecords }} from {json.dumps((ROOT / "runtime_js" / "src" / "memory.js").as_uri())};
const buffer = new ArrayBuffer(65536), words = new Uint32Array(buffer);
const put = (at, offsets, values) => Object.entries(values).forEach(([k, v]) => (words[(at + offsets[k]) / 4] = v));
put(128, {json.dumps(library)}, {json.dumps(head)});
put(640, {json.dumps(kernel)}, {json.dumps(entry)});
const node = {{ in: [0], out: [1], kernel: 0, paramsAt: 64 }};
const values = [{{ class: "arena", offset: 16 }}, {{ class: "arena", offset: 32 }}];
const graph = {{ model: "m", kernels: ["k"], nodes: [node], values, symbols: [{{}}], scratchBytes: 64 }};
const layout = {{ params: 4096, arena: 1024, scratch: 8192, sizes: 512, signature: new Map(), records: 2048 }};
const exports = {{ sterna_m_library: () => 128, __indirect_function_table: {{ get: (index) => index === 5 }} }};
const read = readTable(exports, buffer, graph);
const [[at]] = writeRecords(buffer, graph, layout, 1);
const record = Object.entries({json.dumps(call)}).map(([name, offset]) => [name, words[(at + offset) / 4]]);
const lists = ["in", "out"].map((name) => words[Object.fromEntries(record)[name] / 4]);
console.log(JSON.stringify([read, node.most, Object.fromEntries(record), lists]));
""")
    functions, tasks, record, lists = json.loads(run(need("node", "runs the JavaScript"), script))
    assert (functions, tasks, lists) == ([5], 6, [1024 + 16, 1024 + 32])
    assert {name: value for name, value in record.items() if name not in ("in", "out")} == {
        "size": CALL.size(4),
        **given,
    }


def test_statuses_are_errors() -> None:
    assert [value for _, value, _, _ in abi.STATUSES] == [-n for n in range(len(abi.STATUSES))]
    assert {code for _, _, code, _ in abi.STATUSES} - {""} <= CODES.keys()
    assert abi.status("KERNEL_FAILED") == -11


def test_alignment() -> None:
    assert [abi.aligned(n) for n in (0, 1, 63, 64, 65)] == [0, 64, 64, 64, 128]
    assert np.lcm.reduce([size for _, _, size in abi.DTYPES]) <= abi.ALIGNMENT


#: File -> pattern and the number that every match must have.
STATED = {
    "README.md": {r"(\d+)-byte aligned": abi.ALIGNMENT},
    "runtime_c/include/sterna.h": {
        r"(\d+)-byte aligned": abi.ALIGNMENT,
        r"Version (\d+) adds control flow": abi.FORMAT_WITH_CONTROL,
        r"version (\d+) memories": abi.FORMAT_WITH_MEMORIES,
        r"version (\d+) devices": abi.FORMAT_WITH_DEVICES,
    },
    "docs/security.md": {
        r"takes more memory for it \| (\d+) MiB": abi.MAX_GRAPH_BYTES_IN_JAVASCRIPT >> 20,
        r"nesting of `graph.json` \| (\d+)": abi.MAX_NESTED,
        r"dimensions of a tensor in a bundle \| (\d+)": abi.MAX_RANK,
        r"open dimensions of a bundle \| (\d+)": abi.MAX_SYMBOLS,
        r"terms of a dimension's expression \| (\d+)": abi.MAX_TERMS,
    },
    "docs/bundle.md": {
        r"(\d+)-byte aligned": abi.ALIGNMENT,
        r"a call record has (\d+) bytes": CALL.size(4),
        r"an entry of the table (\d+)": KERNEL.size(4),
        r"JSON, at most (\d+) MiB": abi.MAX_GRAPH_BYTES >> 20,
        r"nested at most (\d+) deep": abi.MAX_NESTED,
        r"graph.json of at most (\d+) MiB": abi.MAX_GRAPH_BYTES_IN_JAVASCRIPT >> 20,
        r"at\s+most (\d+) integers, symbols and operations": abi.MAX_TERMS,
        r"1 to (\d+) letters, digits": abi.MAX_NAME_BYTES,
        r"`KERNEL_FAILED` \((-\d+)\)": abi.status("KERNEL_FAILED"),
        r"format version: (\d), \d where there is `control`": abi.OLDEST_FORMAT,
        r"(\d) where there is `control`": abi.FORMAT_WITH_CONTROL,
        r"(\d) where there are `arenas`": abi.FORMAT_WITH_MEMORIES,
        r"(\d) where there is `widened`": abi.FORMAT_WITH_WIDENED,
        r"(\d) where there are `devices`": abi.FORMAT_WITH_DEVICES,
    },
}


@pytest.mark.parametrize("name", STATED)
def test_what_is_written_for_people(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    for pattern, number in STATED[name].items():
        found = re.findall(pattern, text)
        assert found, f"{name} says nothing of {pattern}"
        assert {int(each) for each in found} == {number}, pattern


def test_no_other_source_has_the_numbers() -> None:
    """Alignment, versions and layouts are read from `sterna_runtime.abi`, never written again."""
    again = re.compile(r"% 64\b|// 64\) \* 64|\b(ABI|ALIGNMENT|FORMAT|KERNEL_FAILED) = -?\d|\(64\)\)|return -1[1;]")
    sources = [
        *(ROOT / "compiler").rglob("*.py"),
        *(ROOT / "templates").rglob("*.j2"),
        *(ROOT / "runtime_js" / "src").glob("*.js"),
    ]
    found = {
        str(path.relative_to(ROOT)): again.findall(path.read_text("utf-8"))
        for path in sources
        if "abi" not in path.relative_to(ROOT).parts and path.name != "abi.js"
    }
    assert {path: hits for path, hits in found.items() if hits} == {}
    defined = re.compile(r"#define (?:MAX_|ALIGNMENT )\w*")
    for path in (RUNTIME / "src").glob("*.c"):
        assert [hit for hit in defined.findall(path.read_text()) if hit not in LOCAL] == [], path.name


#: Limits of one file of the C runtime, which no other language has.
LOCAL = {"#define MAX_PATH_BYTES", "#define MAX_ITERATIONS"}


def test_library_records_grow_only_at_the_end() -> None:
    """What every reader relies on: where the size and the version of a library stand."""
    assert LIBRARY.offsets(4)["size"] == LIBRARY.offsets(8)["size"] == 0
    assert LIBRARY.offsets(4)["abi"] == LIBRARY.offsets(8)["abi"] == 4
    assert CALL.offsets(4)["size"] == CALL.offsets(8)["size"] == 0
