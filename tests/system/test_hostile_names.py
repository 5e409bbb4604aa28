"""Forty-three hostile names through everything that shows or generates them: they stay names."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import sterna
from sterna import escape
from sterna.cli import program
from sterna.package.npm import npm_package
from sterna_runtime.names import identifiers, is_file_name, is_identifier, model_name
from support.hostile import NAMES, broken_model, dims, model
from support.javascript import npm_packages
from support.tools import need, run

ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")  # what nobody sees, or what acts
ids = [f"{n:02}" for n in range(len(NAMES))]
each_name = pytest.mark.parametrize("name", NAMES, ids=ids)


def unseen(text: str) -> set[str]:
    return {letter for letter in text if unicodedata.category(letter) in ACTING and letter not in "\n\t"}


def command(*arguments: object) -> Result:
    result = CliRunner().invoke(program, [str(a) for a in arguments])
    for text in (result.stdout, result.stderr):
        assert not unseen(text)
    return result


def as_json(*arguments: object) -> Any:
    result = command(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_there_are_forty_three() -> None:
    assert len(set(NAMES)) == 43


# ---- Each escaper, with each name ----


@each_name
def test_terminal(name: str) -> None:
    assert not unseen(escape.terminal(name))
    assert not set("\n\t") & set(escape.terminal(name))
    assert not unseen(escape.terminal_lines(name))
    assert escape.terminal("Küste x/y [1]") == "Küste x/y [1]", "what is harmless stays"


@each_name
def test_rich_markup(name: str) -> None:
    console = Console(width=20_000, emoji=False, highlight=False)
    for before, after in (("", ""), ("[bold]", "[/]"), ("[dim]x [/]", "[red]y[/]")):
        with console.capture() as capture:
            console.print(f"{before}{escape.rich(name)}{after}", soft_wrap=True)
        shown = {"": "", "[/]": "", "[red]y[/]": "y"}[after]
        assert capture.get() == f"{'x ' if shown else ''}{escape.terminal(name)}{shown}\n"


@each_name
def test_comment(name: str) -> None:
    text = escape.comment(name)
    assert text.isascii()
    assert text.isprintable() or text == ""
    assert not re.search(r"\*/|/\*|\?\?", text)
    assert "*/" not in f"/*{text}*/"[2:-2] + " "
    assert not f"// {text}".endswith("\\")


@each_name
def test_javascript_and_json(name: str) -> None:
    literal = escape.javascript(name)
    assert literal.isascii()
    assert json.loads(literal) == name
    assert not set(literal[1:-1]) & set("<>&\n")
    assert json.loads(escape.json_text({name: [name]})) == {name: [name]}
    assert not unseen(escape.json_text(name))


def test_lone_surrogates() -> None:
    """JSON files may hold halves of pairs, which no encoding takes."""
    for escaper in (escape.terminal, escape.terminal_lines, escape.rich, escape.comment, escape.javascript):
        escaper("a\ud800\udfffb").encode()
    escape.json_text("a\ud800b").encode()


# ---- Names of files, models and identifiers ----


@each_name
def test_names_of_files_and_models(name: str) -> None:
    assert not is_file_name(name) or name in ("__proto__", "constructor", "int")
    for path in (name, f"{name}.onnx", f"folder/{name}.tflite"):
        made = model_name(path)
        assert is_identifier(made)
        assert made == made.lower()
        assert not made.startswith("sterna")
        assert made not in ("int", "class")


def test_long_names_are_cut_with_a_hash() -> None:
    """Names of more than 127 characters ended in E0504 when their bundle was loaded."""
    names = [model_name(f"{'n' * length}{end}.onnx") for length in (126, 127, 200, 240) for end in ("", "a", "b")]
    assert all(len(name) <= 127 and is_identifier(name) for name in names)
    assert len(set(names)) == len(names)
    assert names[0] == "n" * 126, "what fits stays"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("MobileNet-V2.onnx", "mobilenet_v2"), ("int.onnx", "model_int"), ("class.tflite", "model_class"),
        ("sterna.onnx", "model_sterna"), ("sterna_run.onnx", "model_sterna_run"), ("3d.onnx", "model_3d"),
        ("模型.onnx", "model"), ("", "model"), ("CON.onnx", "con"), ("_x_.onnx", "x"), ("uint.onnx", "model_uint"),
    ],
)  # fmt: skip
def test_names_of_models(file: str, name: str) -> None:
    assert model_name(file) == name


def test_file_names() -> None:
    for good in ("params.bin", "model.browser-relaxed.wasm", "a", "a" * 127):
        assert is_file_name(good)
    for bad in (
        "",
        ".",
        "..",
        ".git",
        "a/b",
        "a\\b",
        "c:x",
        "a\0",
        "-x",
        "con",
        "NUL.so",
        "lpt1.bin",
        "a" * 128,
        "x.",
        3,
    ):
        assert not is_file_name(bad)


def test_identifiers_of_tensors() -> None:
    made = identifiers([*NAMES, "a b", "A-b", "for", "for_", "0"])
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[a-z]\w*", name, re.ASCII) and len(name) < 127 for name in made)
    assert {"int_", "for_", "for__", "t_0", "a_b", "a_b_"} <= set(made)


def test_a_model_with_a_long_name_runs(tmp_path: Path) -> None:
    path = tmp_path / f"{'long' * 50}.onnx"
    onnx.save(one_name("x"), path)
    bundle = tmp_path / "b"
    assert command("compile", path, "-o", bundle, "--generator", "llvm").exit_code == 0
    assert len(as_json("inspect", bundle)["graph"]["model"]) == 127
    with sterna.load(bundle) as loaded:
        assert loaded.run({"x-in": np.ones(3, np.float32)})["x"].tolist() == [-1] * 3


def one_name(name: str) -> onnx.ModelProto:
    node = onnx.helper.make_node("Neg", [f"{name}-in"], [name], name=name)
    info = onnx.helper.make_tensor_value_info
    given, made = info(f"{name}-in", onnx.TensorProto.FLOAT, [3]), info(name, onnx.TensorProto.FLOAT, [3])
    return onnx.helper.make_model(onnx.helper.make_graph([node], name, [given], [made]), ir_version=9)


def test_an_output_called_file(tmp_path: Path) -> None:
    """The name of an argument of numpy's savez."""
    bundle = sterna.compile_to(tmp_path / "b", one_name("file"), generator="llvm")
    assert command("run", bundle, "--random", "-o", tmp_path / "out.npz").exit_code == 0
    assert np.load(tmp_path / "out.npz").files == ["file"]


@pytest.mark.parametrize(("file", "folder"), [("..onnx", "model"), ("...onnx", "model"), ("a..onnx", "a")])
def test_where_a_bundle_goes_by_default(
    file: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`..onnx` would go among the files here, `...onnx` among those above."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    onnx.save(one_name("x"), file)
    assert as_json("compile", f"./{file}", "--generator", "llvm")["directory"] == folder
    assert {path.name for path in tmp_path.iterdir()} == {"here"}


def test_e0103_a_zero_byte() -> None:
    with pytest.raises(sterna.SternaError) as caught:
        sterna.compile(one_name("a\0b"))
    assert caught.value.codes == ("E0103", "E0103")
    assert "a\\x00b" in str(caught.value)


# ---- Models that use all of them ----


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.onnx"
    onnx.save(model(), path)
    return path


@pytest.fixture(scope="module")
def bundle(file: Path) -> Path:
    return sterna.compile_to(file.with_name("bundle"), file, dims=dims(), generator="llvm")


def test_compiling_says_them_escaped(file: Path, tmp_path: Path) -> None:
    sizes = [part for name in dims() for part in ("--dim", f"{name}=1..4")]
    result = command("compile", file, *sizes, "-o", tmp_path / "b", "--generator", "llvm", "--dump-after", "all")
    assert result.exit_code == 0, result.output
    assert "\\x1b[31mred" in result.stdout
    assert not re.search(r"^error\[E0901\]", result.output, re.MULTILINE)


def test_inspecting(file: Path, bundle: Path) -> None:
    facts = as_json("inspect", bundle)
    assert {v["name"] for v in facts["graph"]["values"]} >= {*NAMES}
    assert {t["name"] for t in as_json("inspect", file)["outputs"]} == {*NAMES}
    for path in (file, bundle):
        assert "../../x-in" in command("inspect", path).stdout
    shown = command("inspect", bundle, "--nodes", "--memory").stdout
    assert "\\x1b[31mred" in shown
    assert "[bold]x[/bold][/]" in shown


def test_running(bundle: Path) -> None:
    facts = as_json("run", bundle, "--random", "--profile", "--repeat", 2)
    assert [o["name"] for o in facts["outputs"]] == list(NAMES)
    written = bundle.with_name("outputs.npz")
    assert command("run", bundle, "--random", "-o", written).exit_code == 0
    with np.load(written) as archive:
        assert set(archive.files) == set(NAMES)
    shown = command("run", bundle, "--random", "--profile", "--repeat", 2).stdout
    assert "\\u202egnp.exe" in shown
    with sterna.load(bundle) as loaded:
        found = loaded.run({f"{name}-in": np.full(3, n, np.float32) for n, name in enumerate(NAMES)})
        assert {name: array.tolist() for name, array in found.items()} == {n: [-i] * 3 for i, n in enumerate(NAMES)}


@pytest.mark.parametrize("kind", ["broken", "open", "unknown"])
def test_errors_say_them_escaped(kind: str, file: Path, bundle: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    onnx.save(broken_model(), broken)
    arguments: dict[str, tuple[object, ...]] = {
        "broken": ("compile", broken, "-o", tmp_path / "b"),
        "open": ("compile", file, "-o", tmp_path / "b"),
        "unknown": ("run", bundle, *(part for name in NAMES for part in ("-i", f"{name}-no={tmp_path}/x.npy"))),
    }
    result = command(*arguments[kind])
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert all(line.startswith(("error[", "  ")) or not line for line in lines), "no name makes lines of its own"
    assert not any(line.startswith("error[E0901]") for line in lines)
    errors = json.loads(command(*arguments[kind], "--json").stdout)["errors"]
    assert len(errors) == sum(line.startswith("error[") for line in lines)


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_generated_c(compiler: str, file: Path, tmp_path: Path) -> None:
    """Every file of a bundle for firmware is C without a warning, its header C++ too; names stay in comments."""
    found = need(compiler, "compiles what is generated")
    static = sterna.compile_to(tmp_path / "b", file, "cortex-m4", dims=dict.fromkeys(dims(), 2))
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-trigraphs", f"-I{static}"]
    if compiler == "g++":
        use = "int main() { hostile_inputs in = {}; return !!in.int_in; }"
        (tmp_path / "use.cpp").write_text(f'#include "model.h"\n{use}\n')
        run(found, *flags, tmp_path / "use.cpp")
    else:
        for source in ("model.c", "params.c", "kernels.c"):
            run(found, *flags, "-std=c99", static / source)
    for source in static.glob("*.[ch]"):
        assert source.read_text().isascii()


@pytest.fixture(scope="module")
def package(file: Path) -> Path:
    place = sterna.compile_to(file.with_name("browser"), file, "browser", dims=dims(), generator="llvm")
    return npm_package(place, file.with_name("package"))


def test_packages(package: Path, tmp_path: Path) -> None:
    assert {p.name for p in package.iterdir()} == {
        "LICENSE", "README.md", "index.d.ts", "index.js", "model", "package.json", "preload.html",
        "thread.js",
    }  # fmt: skip
    assert "Apache License" in (package / "LICENSE").read_text()
    for name in ("README.md", "index.d.ts", "index.js", "package.json", "preload.html"):
        assert (package / name).read_text().isascii()
    readme = (package / "README.md").read_text()
    assert [line for line in readme.splitlines() if line.startswith("```")] == ["```js", "```"]
    around = re.sub(r"```js\n.*?\n```\n", "", readme, flags=re.DOTALL)
    assert not re.search(r"[<\[]", around), "no HTML and no links outside of the code"
    assert json.loads((package / "package.json").read_text())["name"] == "hostile"


def test_types_of_packages(package: Path, tmp_path: Path) -> None:
    modules, node = npm_packages(), need("node", "runs the type checker")
    shutil.copytree(package, tmp_path / "hostile")
    names = ", ".join(f"outputs[{escape.javascript(name)}][0]" for name in NAMES if name != "__proto__")
    text = 'import { load } from "./hostile/index.js";\nconst model = await load();\nconst outputs = model.run({});\n'
    text += f"export const all: number[] = [{names}];\nmodel.setDims({{{escape.javascript(NAMES[0] + '-dim')}: 2}});\n"
    (tmp_path / "use.mts").write_text(text)
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    run(node, modules / "typescript" / "bin" / "tsc", *flags, "use.mts", cwd=tmp_path)


def test_packages_run(package: Path, tmp_path: Path) -> None:
    """In Node: every input is taken and every output given by its name, as own members."""
    node = need("node", "runs WebAssembly")
    (tmp_path / "names.json").write_text(json.dumps(NAMES))
    script = f"""
        import assert from "node:assert/strict";
        import {{ readFileSync }} from "node:fs";
        import {{ load }} from {json.dumps((package / "index.js").as_uri())};
        const names = JSON.parse(readFileSync({json.dumps(str(tmp_path / "names.json"))}, "utf8"));
        const model = await load();
        const array = (n) => ({{ data: new Float32Array(3).fill(n), dims: [3] }});
        const given = Object.fromEntries(names.map((name, n) => [`${{name}}-in`, array(n)]));
        const outputs = model.run(given);
        assert.deepEqual(Object.keys(outputs).sort(), [...names].sort());
        for (const [n, name] of names.entries()) {{
          const found = Object.getOwnPropertyDescriptor(outputs, name).value;
          assert.deepEqual([...found], [-n, -n, -n], name);
        }}
        assert.throws(() => model.run({{ constructor: new Float32Array(3) }}), {{ code: "E0602" }});
        model.dispose();
    """
    (tmp_path / "use.mjs").write_text(script)
    run(node, tmp_path / "use.mjs")
