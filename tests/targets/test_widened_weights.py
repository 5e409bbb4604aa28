"""Weights that a bundle stores in float16 and that the JavaScript runtime widens when it loads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import sterna
from sterna.api import compile_to
from sterna.bundle.widened import narrowed
from sterna_runtime import SternaError, hash64, load
from sterna_runtime.reader import read_graph
from support.replaying import replay
from support.tools import need, run
from support.trained import digits

pytestmark = pytest.mark.family("wasm32")


def network(dtype: int, hidden: int = 75) -> object:
    """Two dense layers, whose weights float16 holds: also its least and greatest numbers, and -0."""
    random = np.random.default_rng(5)
    first = random.normal(size=(33, hidden)).astype(np.float16)
    first.reshape(-1)[:6] = [0.0, -0.0, 6e-8, -6e-8, 65504, -65504]
    weights = {"w1": first, "b1": random.normal(size=hidden), "w2": random.normal(size=(hidden, 130))}
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    held = [numpy_helper.from_array(w.astype(np.float16).astype(kind), name) for name, w in weights.items()]
    # A third of it is nothing that float16 holds.
    odd = numpy_helper.from_array((random.normal(size=130) / 3).astype(kind), "b2")
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, dtype, [1, s]) for n, s in (("x", 33), ("y", 130)))
    graph = helper.make_graph(nodes, "dense", [x], [y], [*held, odd])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.FLOAT], ids=["float16", "float32"])
def test_the_runtime_widens(generator: str, dtype: int, tmp_path: Path) -> None:
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    feeds = [{"x": np.random.default_rng(n).normal(size=(1, 33)).astype(kind) / 64} for n in range(3)]
    replay(network(dtype), feeds, tmp_path, generator, tolerance=1e-3 if dtype == TensorProto.FLOAT16 else 1e-5)
    bundle = tmp_path / "bundle"
    assert (bundle / "graph.json").read_bytes().startswith(b'{"sterna":4,')
    graph = read_graph(bundle)
    counts = [count for _, count in graph["widened"]]
    assert min(counts) >= 75
    weights = graph["files"]["params.bin"]
    assert weights["bytes"] == (bundle / "params.bin").stat().st_size == weights["static_bytes"] - 2 * sum(counts)
    assert weights["bytes"] < 0.62 * weights["static_bytes"]


@pytest.mark.parametrize("options", [{"single_file": True}, {"all_variants": True}], ids=["one-file", "variants"])
def test_other_kinds_of_bundle(options: dict[str, bool], tmp_path: Path) -> None:
    """One and the same numbers, however the weights come, and for threads."""
    place = tmp_path / "bundle"
    compile_to(place, network(TensorProto.FLOAT), "browser", **options)  # type: ignore[arg-type]
    script = tmp_path / "run.mjs"
    path = place / "model.wasm" if "single_file" in options else place
    runtime = Path(__file__).parents[2] / "runtime_js" / "src" / "index.js"
    script.write_text(
        f"""import {{ Model }} from {json.dumps(str(runtime))};
        const x = Float32Array.from({{ length: 33 }}, (_, n) => n / 640 - 0.02);
        for (const threads of [1, 2]) {{
          const model = await Model.load({json.dumps(str(path))}, {{ threads }});
          console.log(JSON.stringify([...model.run({{ x }}).y]));
          model.dispose();
        }}"""
    )
    said = run(need("node", "runs WebAssembly"), script)
    x = np.arange(33, dtype=np.float32)[None] / 640 - np.float32(0.02)
    with sterna.compile(network(TensorProto.FLOAT), generator="llvm") as host:
        expected = host.run({"x": x})["y"][0]
    for line in said.splitlines():
        np.testing.assert_allclose(json.loads(line), expected, rtol=1e-5, atol=1e-3)


def test_a_few_weights_stay_as_they_are(tmp_path: Path) -> None:
    bundle = compile_to(tmp_path / "bundle", network(TensorProto.FLOAT, hidden=1), "browser", generator="llvm")
    assert "widened" not in read_graph(bundle)
    assert (bundle / "graph.json").read_bytes().startswith(b'{"sterna":1,')


def test_the_runtime_in_c_refuses(tmp_path: Path) -> None:
    bundle = compile_to(tmp_path / "bundle", digits().file, "host", generator="llvm")
    first, rest = (bundle / "graph.json").read_text().split("\n", 1)
    changed = rest.replace('"scratch_bytes"', '"widened":[[0,64]],"scratch_bytes"', 1)
    head = re.sub(r'"hash":"\w+"', f'"hash":"{hash64(changed.encode())}"', first)
    (bundle / "graph.json").write_text(f"{head}\n{changed}")
    with pytest.raises(SternaError, match="widened weights") as caught:
        load(bundle)
    assert caught.value.codes == ("E0507",)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=6), st.integers(0, 5), st.integers(0, 99))
def test_what_is_not_widened_stands_as_it_is(parts: list[tuple[int, int]], tail: int, seed: int) -> None:
    """Each part: words that are kept, then numbers that become float16."""
    random = np.random.default_rng(seed)
    memory, expected, ranges = b"", b"", []
    for words, count in parts:
        kept, wide = random.bytes(4 * words), random.normal(size=count).astype(np.float16)
        ranges.insert(0, (len(memory) + len(kept), count))
        memory += kept + wide.astype(np.float32).tobytes()
        expected += kept + wide.tobytes()
    last = random.bytes(4 * tail)
    assert narrowed(memory + last, ranges) == expected + last
