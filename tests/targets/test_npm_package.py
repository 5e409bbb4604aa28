"""Packages for npm: the runtime as one module; what npm packs and installs, as Node, tsc, bundlers and pages use it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from onnx import parser

from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package.javascript import OneModule, one_module
from sterna.package.npm import npm_package
from support.control_flow import model
from support.javascript import RUNTIME, chromium, npm_packages, served
from support.tools import ROOT, need, run
from support.trained import digits, sample

pytestmark = pytest.mark.family("wasm32")
#: What is exported, by module of the runtime that is an entry.
ENTRIES = {
    "index": {"Model", "SternaError"},
    "webgpu": {"Model", "SternaError"},
    "worker": {"Model"},
    "inspect": {"plan", "about", "tensor"},
    "strings": {"Strings"},
    "thread": set(),
}


def _exports(made: OneModule, place: Path) -> dict[str, str]:
    """What Node finds in a module that was made of several: every export, as text."""
    names = "\n".join(f"export const of_{name} = {known};" for name, known in made.exports.items())
    place.write_text(f"{made.text}\n{names}\n")
    script = f'import * as all from "{place.as_uri()}";'
    script += "console.log(JSON.stringify(Object.entries(all).map(([name, value]) => [name, String(value)])))"
    found = json.loads(run(need("node", "runs modules"), "--input-type=module", "-e", script))
    return {name.removeprefix("of_"): value for name, value in found}


@pytest.mark.parametrize("entry", [name for name in ENTRIES if name != "thread"])
def test_the_runtime_as_one_module(entry: str, tmp_path: Path) -> None:
    made = one_module(RUNTIME / "src", entry)
    assert not re.search(r"^(?:import|export) |/\*\*", made.text, re.M)
    assert set(_exports(made, tmp_path / "one.mjs")) == ENTRIES[entry]


def test_modules_may_share_names(tmp_path: Path) -> None:
    """Names of their own, imports under others, defaults, and what is passed on, from another folder too."""
    folder = tmp_path / "modules"
    (folder / "deep").mkdir(parents=True)
    (folder / "one.js").write_text(
        "export const A = 1, B = 2;\nexport const Model = `one ${A}`;\nconst own = 3;\nexport default own;\n"
    )
    (folder / "deep" / "two.js").write_text(
        'import { Model as First, A } from "../one.js";\nimport three from "../one.js";\nconst own = 4;\n'
        "/** Documentation. */\nexport const Model = `two of ${First}, ${A + own + three}`;\n"
    )
    (folder / "three.js").write_text(
        'import { Model } from "./deep/two.js";\nimport { B as own } from "./one.js";\n'
        'export { A as Passed } from "./one.js";\n'
        "export function said() {\n  return `${Model} ${own}`;\n}\nexport const text = said();\n"
    )
    made = one_module(folder, "three")
    assert made.text.count("one ${A}") == 1
    found = _exports(made, tmp_path / "one.mjs")
    assert found["text"] == "two of one 1, 8 2"
    assert found["Passed"] == "1"


def test_what_a_gpu_adds_is_small(tmp_path: Path) -> None:
    """Minified and compressed, as bundlers and servers do: less than 8 KiB. A bundler that makes one module of all, as
    `runtime_js/test/size.test.js` does, has some hundred bytes less."""
    script = "import { transform } from 'esbuild'; import { gzipSync } from 'node:zlib';"
    script += "const { code } = await transform(process.argv[1], { minify: true, format: 'esm' });"
    script += "console.log(gzipSync(code, { level: 9 }).length);"
    sizes = []
    for entry in ("index", "webgpu"):
        made = one_module(RUNTIME / "src", entry)
        text = f"{made.text}\nexport const all = [{', '.join(made.exports.values())}];"
        command = [need("node", "runs modules"), "--input-type=module", "-e", script, text]
        sizes.append(int(run(*command, cwd=npm_packages().parent)))
    assert sizes[0] < 10_200
    assert sizes[1] - sizes[0] < 8_192


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the digits, for WebGPU and everything else, as the command makes it."""
    place = tmp_path_factory.mktemp("package") / "digits"
    given = ["package", str(digits().file), "--for", "npm", "-t", "webgpu", "--name", "my-digits", "-o", str(place)]
    done = CliRunner().invoke(program, [*given, "--all-variants"])
    assert done.exit_code == 0, done.output
    return place


@pytest.fixture(scope="module")
def project(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that installed the package from its tarball."""
    npm, place = need("npm", "packs and installs packages"), tmp_path_factory.mktemp("project")
    listed = json.loads(run(npm, "pack", "--json", "--pack-destination", place, cwd=package))
    packed = listed[0] if isinstance(listed, list) else next(iter(listed.values()))
    (place / "package.json").write_text('{"name": "project", "private": true, "type": "module"}')
    run(npm, "install", "--offline", "--no-audit", "--no-fund", f"./{packed['filename']}", cwd=place)
    installed = [path.name for path in (place / "node_modules").iterdir() if not path.name.startswith(".")]
    assert installed == ["my-digits"]
    return place


USE = """
import { load } from "my-digits";
const seen = new Set();
const model = await load({ onProgress: ({ file }) => seen.add(file) });
const image = Float32Array.from({ length: 64 }, (_, n) => (n * 7) % 17);
const { scores } = await model.run({ image });
const { name, backend, reason } = model;
console.log(JSON.stringify([name, scores.length, scores.constructor.name, backend, reason, [...seen].sort()]));
"""
TYPED = """
import { load, SternaError, type KeptOutput, type Outputs } from "my-digits";
const model = await load({ threads: 2 });
const outputs: Outputs = await model.run({ image: new Float32Array(64) });
const scores: Float32Array = outputs.scores;
const backend: "webgpu" | "wasm" = model.backend;
declare const buffer: GPUBuffer, canvas: OffscreenCanvas, device: GPUDevice;
await model.run({ image: canvas });
await model.run({ image: buffer });
await model.run({ image: { buffer, offset: 256 } });
const kept = (await model.run({}, { keep: ["scores"] })).scores;
if (!(kept instanceof Float32Array)) device.queue.writeBuffer(kept.buffer, kept.offset, scores);
const place: KeptOutput | Float32Array = kept;
await load({ device });
// @ts-expect-error the model has no such input
await model.run({ picture: new Float32Array(64) });
// @ts-expect-error the input is of floats
await model.run({ image: new Uint8Array(64) });
// @ts-expect-error a run is a promise
model.run({ image: new Float32Array(64) }).scores;
// @ts-expect-error there is no such output
await model.run({}, { keep: ["nothing"] });
// @ts-expect-error what was not kept is an array
(await model.run({})).scores.buffer.mapAsync;
// @ts-expect-error a device is needed
await load({ device: 3 });
model.dispose();
export { backend, place, scores, SternaError };
"""
#: Where nothing is known of browsers.
BARE = """
import { load } from "my-digits";
const model = await load();
const scores: Float32Array = (await model.run({ image: new Float32Array(64) })).scores;
// @ts-expect-error the input is of floats
await model.run({ image: new Uint8Array(64) });
export { scores };
"""


def test_it_depends_on_nothing_and_runs_nothing(package: Path) -> None:
    described = json.loads((package / "package.json").read_text())
    assert not {"scripts", "dependencies", "peerDependencies"} & set(described)
    script = (package / "index.js").read_text()
    assert not re.search(r"^import |^export .* from", script, re.M)
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert folders == {".", "model", "model/webgpu"}
    named = set(re.findall(r'new URL\("\./(model/[^"]+)"', script))
    assert named == {path.relative_to(package).as_posix() for path in (package / "model").rglob("*") if path.is_file()}
    hints = set(re.findall('href="([^"]+)"', (package / "preload.html").read_text()))
    assert hints == {"index.js", "model/webgpu/kernels.wgsl"}


def test_node_runs_it_in_webassembly(project: Path) -> None:
    (project / "use.mjs").write_text(USE)
    name, length, kind, backend, reason, seen = json.loads(
        run(need("node", "runs WebAssembly"), "use.mjs", cwd=project)
    )
    assert (name, length, kind, backend) == ("digits", 10, "Float32Array", "wasm")
    assert reason.startswith("E0507: WebGPU is not here")
    assert seen[:2] == ["graph.json", "model.browser-relaxed.wasm"] or seen[:2] == ["graph.json", "model.wasm"]
    assert seen[2:] == ["params.bin"]


def test_its_types_are_exact(project: Path) -> None:
    tsc = [need("node", "runs the type checker"), npm_packages() / "typescript" / "bin" / "tsc", "--noEmit", "--strict"]
    tsc += ["--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]
    for name, text, flags in (("use.mts", TYPED, []), ("bare.mts", BARE, ["--lib", "es2022", "--skipLibCheck"])):
        (project / name).write_text(text)
        run(*tsc, *flags, name, cwd=project)


PAGE = """
import { load } from "./node_modules/my-digits/index.js";
const say = (text) => (document.querySelector("#result").textContent = text);
const image = Float32Array.from({ length: 64 }, (_, n) => (n * 7) % 17);
load().then(async (model) => {
  const { scores } = await model.run({ image });
  say(JSON.stringify({ scores: [...scores], backend: model.backend, reason: model.reason }));
}).catch((problem) => say(`error: ${problem.message}`));
"""


def _shown(base: str, gpu: str) -> tuple[str, list[str]]:
    """What a page says, and the model's files that it asked for."""
    found: dict[str, Any] = json.loads(chromium("packaged", base, gpu))
    assert found["problems"] == []
    files = [path.rpartition("/")[2] for path in found["asked"]]
    return found["text"], sorted(
        file for file in files if re.search(r"\.(?:json|bin|wgsl|wasm)$|-\w+\.(?:json|bin)", file)
    )


def test_a_page_takes_what_it_can_run(project: Path) -> None:
    """Without a bundler; nothing is asked for that it does not run."""
    (project / "index.html").write_text(
        '<link rel="icon" href="data:,"><p id="result"></p><script type="module" src="use.js"></script>'
    )
    (project / "use.js").write_text(PAGE)
    with served(**{"": project}) as base:
        (there, asked_there), (here, asked_here) = _shown(base, "any"), _shown(base, "none")
    gpu, wasm = json.loads(there), json.loads(here)
    assert (gpu["backend"], gpu["reason"]) == ("webgpu", "")
    assert wasm["backend"] == "wasm"
    assert wasm["reason"].startswith("E0507")
    assert asked_there == ["kernels.wgsl", "params.bin"]
    assert asked_here == ["graph.json", "model.browser-relaxed.wasm", "params.bin"]
    assert max(abs(a - b) for a, b in zip(gpu["scores"], wasm["scores"], strict=True)) < 1e-4
    assert max(map(abs, wasm["scores"])) > 0


def test_nodes_on_the_cpu_come_with_it(tmp_path: Path) -> None:
    """The bundle for WebGPU has a library, too, for one thread; threads are those of the other bundle."""
    wasm = compile_to(tmp_path / "wasm", digits().file, "browser")
    gpu = compile_to(tmp_path / "gpu", digits().file, "webgpu", device_for={"softmax": "cpu"})
    npm_package(wasm, tmp_path / "node_modules" / "my-digits", gpu=gpu)
    page = '<link rel="icon" href="data:,"><p id="result"></p><script type="module" src="use.js"></script>'
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "use.js").write_text(PAGE.replace("load()", "load({ threads: 2 })"))
    with served(**{"": tmp_path}) as base:
        (there, asked), (here, _) = _shown(base, "any"), _shown(base, "none")
    both = [json.loads(text) for text in (there, here)]
    assert [each["backend"] for each in both] == ["webgpu", "wasm"]
    assert asked == ["kernels.wgsl", "model.wasm", "params.bin"]
    assert max(abs(a - b) for a, b in zip(*(each["scores"] for each in both), strict=True)) < 1e-4


@pytest.mark.parametrize("bundler", ["vite", "webpack", "esbuild"])
def test_bundlers_build_it_as_they_build_others(bundler: str, package: Path, tmp_path: Path) -> None:
    need("chromium", "the browser that pages are tested in")
    node, modules = need("node", "runs bundlers"), npm_packages()
    place = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "bundlers", place)
    (place / "node_modules").mkdir()
    for installed in modules.iterdir():
        if not installed.name.startswith("."):
            (place / "node_modules" / installed.name).symlink_to(installed)
    shutil.copytree(package, place / "node_modules" / "digits")
    (place / "node_modules" / "sterna").symlink_to(RUNTIME)
    (place / "package.json").write_text('{"type": "module"}')
    if bundler == "vite":
        run(node, modules / "vite" / "bin" / "vite.js", "build", "--logLevel", "warn", cwd=place)
    else:
        run(node, f"{bundler}.build.mjs", cwd=place)
    compile_to(place / "dist" / "bundle", digits().file, "browser")
    with served(**{"": place / "dist"}) as base:
        assert _shown(base, "any")[0] == "page: 1, worker: 1, kernels: kernels.wgsl"
        assert re.fullmatch(r"page: 1, worker: 1, kernels: model\.[\w.-]*wasm", _shown(base, "none")[0])


def test_it_is_made_of_two_bundles(package: Path, tmp_path: Path) -> None:
    wasm = compile_to(tmp_path / "wasm", digits().file, "browser", all_variants=True)
    gpu = compile_to(tmp_path / "gpu", digits().file, "webgpu")
    given = [
        "package",
        str(wasm),
        "--gpu",
        str(gpu),
        "--for",
        "npm",
        "--name",
        "my-digits",
        "-o",
        str(tmp_path / "made"),
    ]
    assert CliRunner().invoke(program, given).exit_code == 0
    files = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}
    assert files == {path.relative_to(tmp_path / "made") for path in (tmp_path / "made").rglob("*") if path.is_file()}
    assert all((package / file).read_bytes() == (tmp_path / "made" / file).read_bytes() for file in files)


def test_of_one_file_where_there_is_no_gpu(tmp_path: Path) -> None:
    single = compile_to(tmp_path / "single", digits().file, "browser", single_file=True)
    gpu = compile_to(tmp_path / "gpu", digits().file, "webgpu")
    place = npm_package(single, tmp_path / "package", gpu=gpu)
    (tmp_path / "use.mjs").write_text(USE.replace('"my-digits"', f'"{(place / "index.js").as_uri()}"'))
    found = json.loads(run(need("node", "runs WebAssembly"), "use.mjs", cwd=tmp_path))
    assert (found[3], found[5]) == ("wasm", ["model.wasm"])


def test_what_is_refused(tmp_path: Path) -> None:
    wasm = compile_to(tmp_path / "wasm", digits().file, "browser")
    gpu = compile_to(tmp_path / "gpu", digits().file, "webgpu")
    other = compile_to(tmp_path / "other", sample("tflm_hello_world_f32").file, "webgpu")
    words = tmp_path / "choice.onnx"
    text = """choice (bool hot, float[3] x) => (float[3] y) {
        y = If (hot) <then_branch = a () => (float[3] p) { p = Identity (x) },
                      else_branch = b () => (float[3] q) { q = Neg (x) }>
    }"""
    words.write_bytes(parser.parse_model(model(text)).SerializeToString())
    given = digits().file
    for arguments, code, said in (
        ([gpu, "--for", "npm"], "E0507", "--target webgpu"),
        ([gpu, "--for", "npm"], "E0507", "--gpu"),
        ([wasm, "--for", "npm", "--gpu", wasm], "E0507", "--target webgpu"),
        ([wasm, "--for", "npm", "--gpu", other], "E0002", "two bundles of one model"),
        ([given, "--for", "npm", "-t", "opencl"], "E0507", "-t webgpu"),
        ([given, "--for", "npm", "-t", "host"], "E0507", "-t browser"),
        ([given, "--for", "npm", "-t", "webgpu", "--gpu", gpu], "E0203", "leave out one of them"),
        ([given, "--for", "c", "--gpu", gpu], "E0203", "leave it out"),
        ([words, "--for", "npm", "-t", "webgpu"], "E0507", "--target browser"),
    ):
        done = CliRunner().invoke(program, ["package", *map(str, arguments), "-o", str(tmp_path / "out")])
        assert done.exit_code in (1, 2), done.output
        assert code in done.output
        assert said in done.output
        assert not (tmp_path / "out").exists()
    with pytest.raises(SternaError, match="E0507"):
        npm_package(gpu, tmp_path / "out")
