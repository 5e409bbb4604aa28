"""Jinja templates: found in the wheel or in a source checkout, strict about undefined names."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from sterna.escape import comment, java_comment, javascript
from sterna_runtime import abi
from sterna_runtime.abi import records


def resource(name: str) -> Path:
    """What stands at the root of a checkout and inside the package in a wheel: templates, runtime_c, LICENSE."""
    package = Path(__file__).resolve().parent.parent
    inside = package / name
    return inside if inside.exists() else package.parent.parent / name


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([resource("templates"), resource("runtime_c") / "include"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # every language has an escaper of its own
    )
    environment.filters.update(comment=comment, java_comment=java_comment, javascript=javascript)
    environment.globals.update(abi=abi, records=records)
    return environment


def render_template(name: str, /, **values: Any) -> str:
    """A template's text for the given values."""
    return _environment().get_template(name).render(**values)
