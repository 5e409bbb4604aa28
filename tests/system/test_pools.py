"""Models for targets with several memories: what lies where, what runs, and what does not fit."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from click.testing import CliRunner

from sterna.api import compile_model, compile_to
from sterna.bundle.c_files import static_model
from sterna.cli import program
from sterna.driver import Compiled
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te.layout import most_elements
from sterna_runtime import hash64, load
from sterna_runtime.reader import read_graph
from support.tools import need, run
from support.trained import sample

DIGITS = sample("digits")
FAST = Memory("fast", "device", bytes=4096, bytes_per_cycle=8)
LARGE = Memory("large", "device", bytes=1 << 18, bytes_per_cycle=1.5)


def board(*memories: Memory, name: str = "cortex-m4") -> Target:
    return replace(load_target(name), memories=memories)


def compiled(*memories: Memory, name: str = "cortex-m4") -> Compiled:
    return compile_model(DIGITS.file, board(*memories, name=name), generator="llvm")


def described(folder: Path, base: str, *memories: Memory) -> Path:
    text = f'extends = "{base}"\n'
    for m in memories:
        keys = {"name": f'"{m.name}"', "bytes": m.bytes, "reach": f'"{m.reach}"', "bytes_per_cycle": m.bytes_per_cycle}
        text += "\n[[memories]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
    path = folder / "board.toml"
    path.write_text(text)
    return path


MAIN = """#include <stdio.h>
#include <string.h>
#include "model.h"
static _Alignas(64) uint8_t fast[M(MEMORY_FAST_BYTES) + 64], large[M(MEMORY_LARGE_BYTES) + 64];
static _Alignas(64) uint8_t params[M(PARAMS_BYTES)];
int main(void) {
  static m(INPUT_t) image;
  static m(OUTPUT_t) scores;
  memset(fast, 0xa5, sizeof fast);
  memset(large, 0x5a, sizeof large);
  memcpy(params, m(params), sizeof params);
  if (fread(image, sizeof image, 1, stdin) != 1) return 1;
  m(inputs) in = {image};
  m(outputs) out = {scores};
  m(memory) memory = {fast, large}, crooked = {fast, large + 4};
  if (m(run)(&in, &out, &crooked, params) != -1) return 2;
  if (m(run)(&in, &out, &memory, params) != 0) return 3;
  for (int i = 0; i < 64; i++)
    if (fast[M(MEMORY_FAST_BYTES) + i] != 0xa5 || large[M(MEMORY_LARGE_BYTES) + i] != 0x5a) return 4;
  return fwrite(scores, sizeof scores, 1, stdout) != 1;
}
"""


@pytest.mark.parametrize(("name", "fast"), [("digits", 4096), ("mlperf_tiny_kws_int8", 8192)])
def test_a_model_in_two_memories_gives_the_same_numbers(name: str, fast: int, tmp_path: Path) -> None:
    gcc = need("gcc", "compiles the bundle's C for this machine")
    model = sample(name)
    # Without instructions that only its own compiler knows.
    path = described(tmp_path, "cortex-m3", replace(FAST, bytes=fast), LARGE)
    bundle = compile_to(tmp_path / "m", model.file, str(path), generator="llvm", shapes=model.shapes())
    header = (bundle / "model.h").read_text()
    sizes = {name: int(n) for name, n in re.findall(r"define \w+_MEMORY_(\w+)_BYTES (\d+)", header)}
    assert set(sizes) == {"FAST", "LARGE"}
    assert sizes["FAST"] <= fast
    prefix, given, made = re.findall(
        r"struct (\w+)_inputs \{\n.* \*(\w+);[^}]*\} [\s\S]*?_outputs \{\n.* \*(\w+);", header
    )[0]
    text = re.sub(r"\bM\((\w+)\)", rf"{prefix.upper()}_\1", re.sub(r"\bm\((\w+)\)", rf"{prefix}_\1", MAIN))
    (tmp_path / "main.c").write_text(text.replace("INPUT_t", f"{given}_t").replace("OUTPUT_t", f"{made}_t"))
    image_of = tmp_path / "program"
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{bundle}")
    sources = [tmp_path / "main.c", *(bundle / file for file in ("model.c", "params.c", "kernels.c"))]
    run(gcc, *flags, *sources, "-o", image_of, "-lm")
    case = model.cases[0]
    (image,), (expected,) = case.inputs.values(), case.outputs
    done = subprocess.run([image_of], input=image.tobytes(), capture_output=True, check=True)
    found = np.frombuffer(done.stdout, expected.dtype).astype(np.float64)
    bound = 0 if expected.dtype == np.int8 else model.tolerance(expected)
    assert np.abs(found - expected.reshape(-1)).max() <= bound


def test_commands_name_the_memories(tmp_path: Path) -> None:
    path = described(tmp_path, "host", FAST, LARGE)
    arguments = ["compile", str(DIGITS.file), "--target", str(path), "-o", str(tmp_path / "b"), "--generator", "llvm"]
    shown = CliRunner().invoke(program, arguments)
    assert shown.exit_code == 0, shown.output
    assert re.search(r"fast [\d,]+ B, large [\d,]+ B, .* live-set lower bound", shown.output), shown.output
    listed = CliRunner().invoke(program, ["inspect", str(tmp_path / "b"), "--memory"], env={"COLUMNS": "120"}).output
    assert {line.split()[0] for line in listed.splitlines() if "float32[" in line and "," in line} >= {"fast", "large"}
    facts = json.loads(CliRunner().invoke(program, [*arguments, "--json"]).stdout)
    assert set(facts["memories"]) == {"fast", "large"}
    assert sum(facts["memories"].values()) == facts["arena_bytes"]


def test_one_memory_is_an_arena(tmp_path: Path) -> None:
    """A target with one memory has the interface that one without any has."""
    path = described(tmp_path, "cortex-m4", LARGE)
    bundle = compile_to(tmp_path / "one", DIGITS.file, str(path), generator="llvm")
    plain = compile_to(tmp_path / "plain", DIGITS.file, "cortex-m4", generator="llvm")
    for name in ("model.c", "kernels.c", "params.bin"):
        one, two = ((b / name).read_text("latin-1").replace("board", "cortex-m4") for b in (bundle, plain))
        assert one == two, name
    assert "ARENA_BYTES" in (bundle / "model.h").read_text()


def test_what_is_touched_most_lies_in_the_fastest_memory() -> None:
    plan = compiled(FAST, LARGE).plan
    assert [pool.name for pool in plan.pools] == ["fast", "large"]
    assert all(pool.bytes <= pool.memory.bytes for pool in plan.pools if pool.memory)
    inside = {value: life for life in plan.lives for value in life.members}
    most = max(plan.lives, key=lambda life: life.touches if life.size <= FAST.bytes else 0)
    assert {plan.pool_of[v] for v in most.members} == {0}
    assert {plan.pool_of[v] for v in inside if inside[v].size > FAST.bytes} == {1}
    names = {value.name: (plan.pool_of[value], plan.offsets[value]) for value in plan.offsets}
    other = compiled(LARGE, FAST).plan
    assert {value.name: (other.pool_of[value], other.offsets[value]) for value in other.offsets} == names
    # Where all fits into the fastest one, that is all there is.
    roomy = compiled(replace(FAST, bytes=1 << 20), LARGE).plan
    assert [pool.name for pool in roomy.pools] == ["fast"]


@pytest.mark.parametrize("fast", [0, 1024, 2048, 4096, 8192, 1 << 16])
@pytest.mark.parametrize("alignment", [1, 64, 256])
def test_buffers_stay_apart_and_within_their_memories(fast: int, alignment: int) -> None:
    memories = [replace(LARGE, alignment=alignment)]
    if fast:
        memories.append(replace(FAST, bytes=fast, alignment=alignment))
    result = compiled(*memories)
    plan = result.plan
    for value, offset in plan.offsets.items():
        pool = plan.pools[plan.pool_of[value]]
        assert offset % max(load_target("cortex-m4").alignment, alignment) == 0
        assert offset + most_elements(value.shape) * dtypes.size(value.dtype) <= pool.bytes
    for a in plan.lives:
        for b in plan.lives:
            if a is b or a.last < b.first or b.last < a.first:
                continue
            (pa, oa), (pb, ob) = ((plan.pool_of[x.members[0]], plan.offsets[x.members[0]]) for x in (a, b))
            assert pa != pb or oa + a.size <= ob or ob + b.size <= oa


SORTS = """<ir_version: 8, opset_import: ["" : 18]>
m (float[2, 512] x) => (float[2, 512] y) {
  a = Relu(x)  k = Constant<value_ints = [512]>()  v, i = TopK(a, k)  b = Cast<to = 1>(i)  y = Add(v, b)
}"""


@pytest.mark.parametrize("fast", [9216, 16384])
def test_scratch_has_a_place(fast: int) -> None:
    """A kernel touches it again and again, so it is in the fastest memory, beside what lives."""
    model = onnx.parser.parse_model(SORTS)
    memories = (LARGE, replace(FAST, bytes=fast))
    result = compile_model(model, board(*memories), generator="llvm")
    plan, size = result.plan, max(k.function.scratch_bytes for k in result.kernels)
    assert size == 9216
    (call,) = [n for n, place in enumerate(plan.scratch) if place is not None]
    pool, offset = plan.scratch[call]
    assert plan.pools[pool].name == "fast"
    alive = {v for life in plan.lives if life.first <= plan.positions[call] <= life.last for v in life.members}
    for value, at in plan.offsets.items():
        if plan.pool_of[value] == pool and value in alive:
            assert at >= offset + size or at + most_elements(value.shape) * dtypes.size(value.dtype) <= offset
    files = static_model(result)
    assert f"call.scratch = memory->fast + {offset};" in files
    with pytest.raises(SternaError, match="E0206") as caught:
        compile_model(model, board(replace(FAST, bytes=result.plan.live_bytes // 2)), generator="llvm")
    needed = int(re.findall(r"fast would have to have (\d+) bytes", str(caught.value))[0])
    assert size < needed <= result.plan.live_bytes
    assert compile_model(model, board(replace(FAST, bytes=needed)), generator="llvm").plan.live_bytes <= needed
    with pytest.raises(SternaError, match="E0206"):
        compile_model(model, board(replace(FAST, bytes=needed - 64)), generator="llvm")


def test_a_model_that_does_not_fit() -> None:
    with pytest.raises(SternaError) as caught:
        compiled(replace(FAST, bytes=512), replace(LARGE, bytes=2560))
    assert caught.value.codes == ("E0206",)
    said = str(caught.value)
    assert "fast (512 bytes) and large (2560 bytes)" in said
    needed, more = map(int, re.findall(r"large would have to have (\d+) bytes, (\d+) more", said)[0])
    assert needed - more == 2560
    assert compiled(replace(FAST, bytes=512), replace(LARGE, bytes=needed)).fitted is None
    (patched,) = map(int, re.findall(r"of all that were tried the least, (\d+) bytes", said))
    assert 512 + 2560 < patched < needed


def test_a_bundle_names_its_arenas_and_runtimes_refuse_them(tmp_path: Path) -> None:
    path = described(tmp_path, "host", FAST, LARGE)
    bundle = compile_to(tmp_path / "bundle", DIGITS.file, str(path), generator="llvm")
    assert (bundle / "graph.json").read_bytes().startswith(b'{"sterna":3,')
    graph = read_graph(bundle)
    assert [(a["memory"], a["alignment"]) for a in graph["arenas"]] == [("fast", 64), ("large", 64)]
    assert sum(a["bytes"] for a in graph["arenas"]) == graph["arena"]["bytes"]
    used = {v["storage"].get("arena", 0) for v in graph["values"] if v["storage"]["class"] == "arena"}
    assert used == {0, 1}
    with pytest.raises(SternaError, match='needs the memory "fast", which is not here') as caught:
        load(bundle)
    assert caught.value.codes == ("E0507",)


def test_a_hostile_list_of_arenas(tmp_path: Path) -> None:
    bundle = compile_to(tmp_path / "bundle", DIGITS.file, "host", generator="llvm")
    first, rest = (bundle / "graph.json").read_text().split("\n", 1)
    for arenas in (
        [],
        [{}],
        {},
        7,
        None,
        "fast",
        [[]],
        [{"memory": 3}],
        [{"memory": "\\u0000"}],
        [{"memory": "x" * 5000}],
    ):
        changed = rest.replace('"scratch_bytes"', f'"arenas":{json.dumps(arenas)},"scratch_bytes"', 1)
        head = re.sub(r'"hash":"\w+"', f'"hash":"{hash64(changed.encode())}"', first)
        (bundle / "graph.json").write_text(f"{head}\n{changed}")
        with pytest.raises(SternaError) as caught:
            load(bundle)
        assert caught.value.codes == ("E0507",)


def test_a_target_whose_memories_hold_no_tensors_has_an_arena() -> None:
    pad = Memory("pad", "block", "copy", bytes=1024)
    plan = compiled(pad).plan
    assert [(pool.name, pool.memory) for pool in plan.pools] == [("arena", None)]
    assert plan.arena_bytes == compiled().plan.arena_bytes


def test_what_a_model_remembers_lies_in_a_memory(tmp_path: Path) -> None:
    """`_reset_state` writes into the pool of each state."""
    gcc = need("gcc", "compiles the bundle's C for this machine")
    model = sample("micro_wakeword_okay_nabu_int8")
    path = described(tmp_path, "cortex-m4", replace(FAST, bytes=2048), LARGE)
    bundle = compile_to(tmp_path / "m", model.file, str(path), generator="llvm", shapes=model.shapes())
    header, source = ((bundle / name).read_text() for name in ("model.h", "model.c"))
    (prefix,) = re.findall(r"void (\w+)_reset_state\(const \1_memory \*memory, const uint8_t \*params\);", header)
    written = re.findall(r"memory->(\w+)\[\d+ \+ i\] = ", source[: source.index(f"int32_t {prefix}_run")])
    assert set(written) <= {"fast", "large"}
    assert written
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-fsyntax-only")
    run(gcc, *flags, bundle / "model.c")
