"""Names in the documentation against the code: commands and options, members of graph.json, codes of errors, variables
of the environment, functions of the C runtime.

A page that names an option which nobody has sends its reader into an error; a member of graph.json that no page
explains is one that another reader gets wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sterna.cli import program as sterna
from sterna.targets.fetches import FETCHES
from sterna_runtime.error_codes import CODES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        # errors.md has mistakes on purpose, and is what its own script writes.
        *(page for page in (ROOT / "docs").rglob("*.md") if page.name != "errors.md"),
        *(page for page in ROOT.glob("runtime_*/README.md")),
    ]
)
BUNDLE = ROOT / "docs" / "bundle.md"
#: Generated from what the code says, wrong command lines among it.
GENERATED = ROOT / "docs" / "errors.md"
#: Pages that people write.
WRITTEN = [page for page in PAGES if page != GENERATED]
HEADERS = [
    ROOT / "runtime_c" / "include" / name
    for name in ("sterna.h", "sterna_kernel.h", "sterna_device.h", "sterna_opencl.h", "sterna_cuda.h", "sterna_metal.h")
]
HEADERS.append(ROOT / "runtime_apple" / "include" / "sterna_linked.h")


def _programs() -> dict[str, list[Path]]:
    """Programs of this repository beside `sterna`: scripts in ci/ with the Python that they call, sterna_run."""
    found = {
        "sterna_run": [ROOT / "runtime_c" / "tools" / "sterna_run.c"],
        "sterna_rpc": [ROOT / "runtime_c" / "rpc" / "sterna_rpc.c"],
        "sterna package --for c": [ROOT / "templates" / "package" / "c" / "main.c.j2"],
    }
    for script in sorted(path for path in (ROOT / "ci").iterdir() if path.is_file() and not path.suffix):
        text = script.read_text()
        called = [ROOT / word for word in re.findall(r'"\$python" ([\w./-]+\.py)', text)]
        called += [ROOT / word / "__main__.py" for word in re.findall(r'"\$python" ([\w/]+)(?= |$)', text)]
        called += [ROOT / "bench" / word / "__main__.py" for word in re.findall(r'"\$python" -m (\w+)', text)]
        found[f"ci/{script.name}"] = [script, *(path for path in called if path.is_file())]
    return found


PROGRAMS = _programs()
#: Programs of others: what they take is not ours to check.
FOREIGN = (
    "tvmc",
    "arm-none-eabi-gcc",
    "cmake",
    "dask",
    "pkg-config",
    "esbuild",
    "npm",
    "npx",
    "node",
    "pip",
    "git",
    "docker",
    "qemu",
    "python",
    "python3",
    "adb",
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def _options_of_commands() -> dict[str, set[str]]:
    """Every command of `sterna` with its long options."""
    assert isinstance(sterna, click.Group)
    context = click.Context(sterna)
    found = {}
    for name in sterna.list_commands(context):
        command = sterna.get_command(context, name)
        assert command is not None
        # Of a command with commands of its own, the options of all of them.
        parts = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
        params = [parameter for part in parts for parameter in part.params]
        flags = (flag for parameter in params for flag in (*parameter.opts, *parameter.secondary_opts))
        found[name] = {"--help", *(flag for flag in flags if flag.startswith("--"))}
    return found


COMMANDS = _options_of_commands()


def _options_of_programs() -> dict[str, set[str]]:
    return {
        name: {"--help", *(flag for file in files for flag in re.findall(r'"(--[a-z][a-z0-9-]*)"', file.read_text()))}
        for name, files in PROGRAMS.items()
    }


def _code(page: Path) -> Iterator[str]:
    """The lines of code blocks (indented by four or fenced) and the spans of code in the text."""
    fenced = False
    text = []
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line.strip()
        else:
            text.append(line)
    for span in re.findall(r"`([^`]+)`", "\n".join(text)):
        yield " ".join(span.split())


def _statements(page: Path) -> Iterator[tuple[str, str]]:
    """Every call of `sterna COMMAND` or of another program of ours: its name and the rest of the line."""
    for line in _code(page):
        code = line.partition(" #")[0]
        for found in re.finditer(r"(?<![\w/.-])(?<!from )(?<!import )(sterna ([a-z]+)\b)(.*)", code):
            yield f"sterna {found[2]}", re.split(r"\s(?:&&|\||;)\s", found[3])[0]
        for program in PROGRAMS:
            for found in re.finditer(rf"(?<![\w/-]){re.escape(program)}(?![\w-])(.*)", code):
                yield program, found[1]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    others = _options_of_programs()
    wrong = []
    for program, rest in _statements(page):
        if program in others:
            known = others[program]
        elif program.split()[1] in COMMANDS:
            known = COMMANDS[program.split()[1]]
        else:
            wrong.append(f"there is no command `{program}`")
            continue
        wrong += [f"`{program}` has no option {flag}" for flag in OPTION.findall(rest) if flag not in known]
    assert not wrong, f"{page.name}: {wrong}"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_the_text_exist(page: Path) -> None:
    """An option that stands alone is one of some program of ours."""
    known = set().union({"--version"}, *COMMANDS.values(), *_options_of_programs().values())
    wrong = {
        flag
        for line in _code(page)
        if not any(re.search(rf"(?<![\w/-]){program}(?![\w-])", line) for program in FOREIGN)
        for flag in OPTION.findall(line)
        if flag not in known
    }
    assert not wrong, f"{page.name} names options that no program has: {sorted(wrong)}"


def test_every_command_is_in_its_page() -> None:
    """docs/cli.md shows every command; its options are in `--help`, which is generated."""
    text = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if not re.search(rf"\b(?:sterna )?{name}\b", text)] == []


# ---- graph.json ----


def _written() -> set[str]:
    """The names of members that the writer gives to what it puts into graph.json and strings.json."""
    names = set()
    files = ("bundle/graph_json.py", "bundle/devices_json.py", "bundle/writer.py", "passes/stay.py")
    for file in files:
        for part in ast.walk(ast.parse((ROOT / "compiler" / "sterna" / file).read_text())):
            keys: list[ast.expr | None] = []
            if isinstance(part, ast.Dict):
                keys = list(part.keys)
            elif isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
                keys = [part.slice]
            names |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    # Files of the bundle are keys of `files`.
    return {name for name in names if re.fullmatch(r"[a-z_]+", name)}


def _read_by_c() -> set[str]:
    """The names of members that the C runtime looks for: strings with zeros between them."""
    (table,) = re.findall(
        r"#define GRAPH_MEMBERS\(X\)((?:.*\\\n)*.*\n)", (ROOT / "runtime_c" / "src" / "internal.h").read_text()
    )
    names = set(re.findall(r'X\(\w+, "(\w+)"\)', table))
    assert len(names) > 10
    for path in (ROOT / "runtime_c" / "src").glob("*.c"):
        text = path.read_text()
        calls = re.findall(r'json_members\([^"()]*(?:\([^()]*\)[^"()]*)*"((?:[^"\\]|\\.)*)"', text)
        tables = re.findall(r'keys\[\] = ((?:\s*"(?:[^"\\]|\\.)*")+)', text)
        for each in [*calls, *("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', table)) for table in tables)]:
            names |= set(filter(None, each.split("\\0")))
    assert len(names) > 40
    return names


def _inner_members() -> dict[str, set[str]]:
    """Members of graph.json that the writer makes of one object, or a list of such: their own members."""
    tree = ast.parse((ROOT / "compiler" / "sterna" / "bundle" / "graph_json.py").read_text())
    (whole,) = (d for d in ast.walk(tree) if isinstance(d, ast.Dict) and '"abi"' in ast.unparse(d).replace("'", '"'))
    found = {}
    for key, value in zip(whole.keys, whole.values, strict=True):
        inner = value.elt if isinstance(value, ast.ListComp) else value
        if isinstance(key, ast.Constant) and isinstance(inner, ast.Dict):
            found[str(key.value)] = {k.value for k in inner.keys if isinstance(k, ast.Constant) and k.value is not None}
    return found


def _documented() -> tuple[set[str], set[str]]:
    """Members that docs/bundle.md describes: those of tables, lists and examples of JSON; and every word in code."""
    text = BUNDLE.read_text()
    described = {"sterna", "hash"}
    for line in text[text.index("## graph.json") :].splitlines():
        if row := re.match(r"\| ((?:`[a-z_]+`(?:, )?)+) \|", line):
            described |= set(re.findall(r"`(\w+)`", row[1]))
        if line.startswith("    "):
            described |= set(re.findall(r'"([a-z_]+)":', line))
        if bullet := re.match(r"- ((?:`[a-z_]+`(?:, | and )?)+)", line):
            described |= set(re.findall(r"`(\w+)`", bullet[1]))
    words = {word for span in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[a-z_]+", span)}
    return described, described | words


def test_members_of_graph_json() -> None:
    described, mentioned = _documented()
    written, read = _written(), _read_by_c()
    assert sorted((written | read) - mentioned) == [], "in graph.json, but not in docs/bundle.md"
    first_line = {"sterna"}  # which is text, and no object
    assert sorted(described - written - read - first_line) == [], "in docs/bundle.md, but neither written nor read"


@pytest.mark.parametrize("member", ["target", "options", "arena", "kernels"])
def test_objects_within_graph_json(member: str) -> None:
    """The row of such a member names what the object has, and an example in it has nothing else."""
    (row,) = re.findall(rf"^\| `{member}` \|.*$", BUNDLE.read_text(), re.MULTILINE)
    written = _inner_members()[member]
    assert written
    assert written <= set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", row))))
    assert set(re.findall(r'"(\w+)":', row)) <= written


# ---- Codes, variables, functions ----


def _sources(*folders: str) -> str:
    kinds = {".py", ".c", ".h", ".ts", ".js", ".j2", ".txt", ""}
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return "\n".join(
        path.read_text(errors="replace")
        for path in paths
        if path.is_file()
        and path.suffix in kinds
        and "node_modules" not in path.parts
        and "__pycache__" not in path.parts
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_codes_exist(page: Path) -> None:
    statuses = re.findall(r'"(E\d{4})"', HEADERS[0].read_text())
    assert set(statuses) <= set(CODES)
    assert set(re.findall(r"\bE\d{4}\b", page.read_text())) <= set(CODES)


def test_environment_variables_and_macros_exist() -> None:
    sources = _sources(
        "compiler", "runtime_c", "runtime_js", "bench", "ci", "fuzz", "templates", "hatch_build.py", "tests"
    )
    known = set(re.findall(r"\b(?:STERNA|SOURCE)_[A-Z_]+\b", sources + (ROOT / "hatch_build.py").read_text()))
    for page in PAGES:
        named = set(re.findall(r"\b(?:-D)?((?:STERNA|SOURCE)_[A-Z_]+)\b", page.read_text()))
        assert named <= known, f"{page.name}: {sorted(named - known)}"


def _declared() -> set[str]:
    """Everything of the headers whose name begins with sterna_."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(header.read_text() for header in HEADERS), flags=re.DOTALL)
    return set(re.findall(r"\bsterna_\w+", text))


def test_c_names_exist() -> None:
    # Programs; what a module of a single file exports; the package of Python; what a program defines for its firmware.
    by_name = {"sterna_run", "sterna_rpc", "sterna_params", "sterna_runtime", *FETCHES}
    for page in PAGES:
        text = re.sub(r"\bsterna_(?!load)\w+_(library|linked)\b", "", page.read_text())  # of a model
        named = set(re.findall(r"\bsterna_[a-z][a-z0-9_]*\b(?!\.(?:py|c|json))", text))
        assert named <= _declared() | by_name, f"{page.name}: {sorted(named - _declared() - by_name)}"


def test_every_function_of_the_header_is_documented() -> None:
    """A comment stands right above it, or above the declarations that it follows without an empty line."""
    lines = HEADERS[0].read_text().splitlines()
    bare = []
    for at, line in enumerate(lines):
        if not line.startswith("STERNA_API"):
            continue
        above = at - 1
        while lines[above].startswith(("STERNA_API", "     ")) and "*/" not in lines[above]:
            above -= 1
        if "*/" not in lines[above] and "/*" not in line:
            bare.append(line)
    assert bare == []
