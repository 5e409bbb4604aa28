"""`sterna serve` and `sterna package`: headers, what is not served, packages that npm packs and bundlers build."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.escape import javascript
from sterna.package.npm import npm_package
from sterna.web.server import HOST, make_server
from support.javascript import RUNTIME, chromium, npm_packages, served
from support.tools import ROOT, need, run
from support.trained import digits


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("web") / "digits", digits().file, "browser", all_variants=True)


@pytest.fixture
def connection(bundle: Path, tmp_path: Path) -> Iterator[http.client.HTTPConnection]:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<title>page</title>")
    (tmp_path / "page" / ".hidden").write_text("secret")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "page" / "link").symlink_to(tmp_path / "secret")
    with make_server({"": tmp_path / "page", "bundle": bundle}, port=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield http.client.HTTPConnection(HOST, server.server_address[1], timeout=10)
        server.shutdown()
        thread.join()


def _get(connection: http.client.HTTPConnection, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, dict(response.getheaders()), response.read()


def test_headers(connection: http.client.HTTPConnection, bundle: Path) -> None:
    status, headers, data = _get(connection, "/bundle/model.wasm?v=1")
    assert (status, data) == (200, (bundle / "model.wasm").read_bytes())
    assert headers["Content-Type"] == "application/wasm"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    policy = headers["Content-Security-Policy"]
    assert "'wasm-unsafe-eval'" in policy
    assert "'unsafe-eval'" not in policy
    assert "'unsafe-inline'" not in policy
    assert _get(connection, "/")[2] == b"<title>page</title>"
    connection.request("HEAD", "/")
    response = connection.getresponse()
    assert (response.status, response.read(), response.headers["Content-Length"]) == (200, b"", "19")


@pytest.mark.parametrize(
    "path",
    [
        "/secret", "/../secret", "/%2e%2e/secret", "/bundle/../../secret", "/bundle/%2e%2e/%2e%2e/secret", "/link",
        "/.hidden", "/bundle", "//etc/passwd", "/bundle//etc/passwd", "/..%5csecret", "/index.html%00", "/nothing",
    ],
)  # fmt: skip
def test_what_lies_outside_is_not_served(connection: http.client.HTTPConnection, path: str) -> None:
    status, _, data = _get(connection, path)
    assert status == 404
    assert b"secret" not in data


def test_it_answers_to_its_own_name_alone(connection: http.client.HTTPConnection) -> None:
    assert _get(connection, "/", Host="localhost:1234")[0] == 200
    for other in ("example.com", "example.com:8000", "", "127.0.0.1.example.com"):
        assert _get(connection, "/", Host=other)[0] == 403


def test_ports() -> None:
    with make_server({}, port=0) as first:
        assert first.server_address[0] == "127.0.0.1"
        taken = first.server_address[1]
        with pytest.raises(SternaError, match=f"E0010.*port {taken}"):
            make_server({}, port=taken)
        with make_server({}, first=taken) as second:
            assert second.server_address[1] > taken


def test_only_bundles_for_browsers_are_served_and_packaged(tmp_path: Path) -> None:
    host = compile_to(tmp_path / "host", digits().file)
    for arguments in (["serve", str(host)], ["package", str(host), "--for", "npm", "-o", str(tmp_path / "out")]):
        result = CliRunner().invoke(program, arguments)
        assert result.exit_code == 1
        assert "E0507" in result.stderr
    with pytest.raises(SternaError, match="E0006"):
        npm_package(tmp_path / "nowhere", tmp_path / "out")


@pytest.mark.parametrize("name", ["Upper", "../x", "a b", "@scope", "@a/b/c", "x" * 215])
def test_names_that_npm_refuses(name: str, bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(SternaError, match="E0203"):
        npm_package(bundle, tmp_path / "out", name)


def test_a_taken_place_is_left_alone(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SternaError, match="E0204"):
        npm_package(bundle, tmp_path)
    with pytest.raises(SternaError, match="E0203"):
        npm_package(bundle, tmp_path / "out", version="one")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_page_needs_one_script_and_asks_early_for_the_rest(bundle: Path, tmp_path: Path) -> None:
    one = compile_to(tmp_path / "one", digits().file, "browser")
    for made, early in ((one, {"model.wasm"}), (bundle, {"model.browser-relaxed.wasm"})):
        place = npm_package(made, tmp_path / f"{made.name}-npm")
        script = (place / "index.js").read_text()
        assert not re.search(r"^import |^export .* from", script, re.M)
        assert javascript((made / "graph.json").read_text()) in script
        assert not (place / "model" / "graph.json").exists()
        hints = set(re.findall('href="([^"]+)"', (place / "preload.html").read_text()))
        assert hints == {"index.js", "model/params.bin", *(f"model/{name}" for name in early)}
        assert all((place / file).is_file() for file in hints)


USE = """
import { load } from "my-digits";
const model = await load();
const { scores } = model.run({ image: new Float32Array(64) });
console.log(JSON.stringify([model.name, scores.length, scores.constructor.name]));
"""
TYPED = """
import { load, SternaError, type Outputs } from "my-digits";
const model = await load({ threads: 2 });
const outputs: Outputs = model.run({ image: new Float32Array(64) });
const scores: Float32Array = outputs.scores;
// @ts-expect-error the model has no such input
model.run({ picture: new Float32Array(64) });
// @ts-expect-error the input is of floats
model.run({ image: new Uint8Array(64) });
model.dispose();
export { scores, SternaError };
"""


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("single", [False, True])
def test_npm_packs_it_and_node_runs_it(single: bool, bundle: Path, tmp_path: Path) -> None:
    npm, node = need("npm", "packs packages"), need("node", "runs WebAssembly")
    if single:
        bundle = compile_to(tmp_path / "single", digits().file, "browser", single_file=True)
    place = npm_package(bundle, tmp_path / "package", "my-digits")
    described = json.loads((place / "package.json").read_text())
    assert "scripts" not in described
    assert "dependencies" not in described
    project = tmp_path / "project"
    (project / "node_modules").mkdir(parents=True)
    listed = json.loads(run(npm, "pack", "--json", "--pack-destination", project, cwd=place))
    packed = listed[0] if isinstance(listed, list) else next(iter(listed.values()))
    files = {row["path"] for row in packed["files"]}
    assert {"README.md", "index.js", "index.d.ts", "model/model.wasm", "thread.js", "preload.html"} <= files
    shutil.unpack_archive(project / packed["filename"], project / "unpacked", "gztar")
    (project / "unpacked" / "package").rename(project / "node_modules" / "my-digits")
    (project / "use.mjs").write_text(USE)
    assert json.loads(run(node, "use.mjs", cwd=project)) == ["digits", 10, "Float32Array"]
    if (RUNTIME / "node_modules").is_dir():
        (project / "use.mts").write_text(TYPED)
        flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]
        run(node, npm_packages() / "typescript" / "bin" / "tsc", *flags, "use.mts", cwd=project)


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("bundler", ["vite", "webpack", "esbuild"])
def test_bundlers(bundler: str, bundle: Path, tmp_path: Path) -> None:
    """The examples build, and the page they build runs in Chromium, in the page's thread and in a worker."""
    need("chromium", "the browser that pages are tested in")
    node, modules = need("node", "runs bundlers"), npm_packages()
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "bundlers", project)
    (project / "node_modules").mkdir()
    for installed in modules.iterdir():
        if not installed.name.startswith("."):
            (project / "node_modules" / installed.name).symlink_to(installed)
    shutil.copytree(npm_package(bundle, tmp_path / "package", "digits"), project / "node_modules" / "digits")
    (project / "node_modules" / "sterna").symlink_to(RUNTIME)
    (project / "package.json").write_text('{"type": "module"}')
    if bundler == "vite":
        run(node, modules / "vite" / "bin" / "vite.js", "build", "--logLevel", "warn", cwd=project)
    else:
        run(node, f"{bundler}.build.mjs", cwd=project)
    shutil.copytree(bundle, project / "dist" / "bundle")
    with served(**{"": project / "dist"}) as base:
        said = chromium("built", base).strip()
    assert said.startswith("page: 1, worker: 1, kernels: model."), said
