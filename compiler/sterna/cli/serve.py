"""`sterna serve`."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import click

from sterna.api import compile_model
from sterna.bundle.writer import bundle_files
from sterna.cli.demo import DATA
from sterna.codegen.render import resource
from sterna.errors import error
from sterna.report.data import describe, document
from sterna.report.page import served_files
from sterna.report.subject import subject_of
from sterna.web.files import Root
from sterna.web.pairs import gpu_bundle, kinds_of
from sterna.web.server import HOST, make_server
from sterna_runtime.advice import Advice, Compile, Option
from sterna_runtime.reader import bundle_of_browser, read_graph


@click.command("serve")
@click.argument("bundle", type=click.Path(path_type=Path), required=False)
@click.option("--port", type=click.IntRange(0, 65535), metavar="N",
              help="Port to listen on; 0 for any. Default: the first free one from 8000 on.")  # fmt: skip
@click.option("--gpu", type=click.Path(path_type=Path), metavar="BUNDLE",
              help="The same model compiled for webgpu: measured beside BUNDLE, and compared.")  # fmt: skip
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
def command(bundle: Path | None, port: int | None, gpu: Path | None, open_page: bool) -> None:
    """Serve a page that runs BUNDLE, and the digits of `sterna demo`, in your own browser.

    The page recognises digits that you draw, shows what BUNDLE says to a picture that you drop, and measures BUNDLE:
    the time of every node, and the layout of memory; its report is a page beside it. It is served on this machine only,
    with the headers that threads and WebAssembly need.
    """
    if bundle is not None:
        _check(bundle)
    if gpu is not None:
        _check_gpu(gpu, bundle)
    with make_server(roots_of(bundle, gpu), port) as server:
        address = f"http://{HOST}:{server.server_address[1]}/{'#picture' if bundle is not None else ''}"
        try:
            click.echo(f"{address}   (Ctrl-C ends it)")
            if open_page:
                webbrowser.open(address)
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("")


def _check(bundle: Path) -> None:
    """Raises E0507, it is for a GPU, or for other machines."""
    if kinds_of(read_graph(bundle)) == ["webgpu"]:
        compiled = Compile("MODEL", "BUNDLE", (Option("target", "browser"),))
        fix = Advice("`", compiled, f"`, and `sterna serve BUNDLE --gpu {bundle}`")
        raise error("E0507", "the bundle is for the GPU of a page, and is served beside one for its CPU", fix=fix)
    bundle_of_browser(bundle)


def _check_gpu(gpu: Path, bundle: Path | None) -> None:
    """Raises E0002, there is nothing to measure it beside, or that is another model; E0507, it is not for WebGPU."""
    if bundle is None:
        raise error("E0002", "--gpu is measured beside a bundle", fix="sterna serve BUNDLE --gpu BUNDLE")
    gpu_bundle(gpu, bundle_of_browser(bundle), bundle)


def roots_of(bundle: Path | None, gpu: Path | None = None) -> dict[str, Root]:
    """What the page is made of. The digits stay in memory: whatever ends the server, no folder is left behind."""
    roots: dict[str, Root] = {
        "": resource("examples") / "browser",
        "sterna": resource("runtime_js") / "src",
        "digits": bundle_files(compile_model(DATA / "digits.onnx", "browser", all_variants=True)),
        # A page that asks for what is not there finds an error in its console.
        "served": {"gpu.json": json.dumps(gpu is not None).encode()},
    }
    if bundle is None:
        return roots
    report = served_files(document([describe(subject_of(bundle))]), measure="../index.html#measure")
    return {**roots, "bundle": bundle, "report": report, **({} if gpu is None else {"gpu": gpu})}
