"""`sterna package`."""

from __future__ import annotations

from pathlib import Path

import click

from sterna.cli.options import json_option
from sterna.cli.output import console, print_json, size
from sterna.escape import rich as escape
from sterna.package.npm import npm_package


@click.command("package")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--for", "ecosystem", type=click.Choice(["npm"]), required=True, help="What kind of package.")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="DIRECTORY",
              help="Folder for the package. Default: the bundle's name with `-npm` added.")  # fmt: skip
@click.option("--name", help="The package's name. Default: the model's.")
@click.option("--package-version", "version", default="1.0.0", show_default=True, metavar="VERSION")
@json_option
def command(bundle: Path, ecosystem: str, output: Path | None, name: str | None, version: str, as_json: bool) -> None:
    """Turn BUNDLE into a package of its own, ready to publish.

    An npm package contains the bundle, the JavaScript runtime, and a wrapper with types from the signature. It has
    no dependencies and runs nothing when it is installed.
    """
    named = bundle if bundle.name not in ("", "..") else bundle.resolve()
    place = npm_package(bundle, output or named.parent / f"{named.name}-{ecosystem}", name, version)
    total = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    if as_json:
        print_json({"directory": str(place), "for": ecosystem, "bytes": total})
    else:
        console().print(f"{escape(str(place))}: {size(total)}; `npm publish` in it makes it public")
