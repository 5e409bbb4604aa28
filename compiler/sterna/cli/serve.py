"""`sterna serve`."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import click

from sterna.api import compile_to
from sterna.bundle.reader import bundle_of_browser
from sterna.cli.demo import DATA
from sterna.codegen.render import resource_directory
from sterna.web.server import HOST, make_server


@click.command("serve")
@click.argument("bundle", type=click.Path(path_type=Path), required=False)
@click.option("--port", type=click.IntRange(0, 65535), metavar="N",
              help="Port to listen on; 0 takes any. Default: the first free one from 8000 on.")  # fmt: skip
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
def command(bundle: Path | None, port: int | None, open_page: bool) -> None:
    """Serve a page that runs BUNDLE, and the digits of `sterna demo`, in your own browser.

    The page recognises what you draw; its second tab measures BUNDLE, shows the time of every node and what lies
    where in memory. It is served on this machine only, with the headers that threads and WebAssembly need.
    """
    if bundle is not None:
        bundle_of_browser(bundle)
    with tempfile.TemporaryDirectory(prefix="sterna-serve-") as directory:
        digits = compile_to(Path(directory) / "digits", DATA / "digits.onnx", "browser", all_variants=True)
        page = resource_directory("examples") / "browser"
        roots = {"": page, "sterna": resource_directory("runtime_js") / "src", "digits": digits}
        if bundle is not None:
            roots["bundle"] = bundle
        with make_server(roots, port) as server:
            address = f"http://{HOST}:{server.server_address[1]}/"
            click.echo(f"{address}{'#measure' if bundle is not None else ''}   (Ctrl-C ends it)")
            if open_page:
                webbrowser.open(address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("")
