"""Jinja templates: found in the wheel or in a source checkout, strict about undefined names."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from sterna.cache import Cache, cache_directory, key
from sterna.escape import comment, java_comment, javascript
from sterna.targets import fetches
from sterna.version import __version__
from sterna_runtime import abi
from sterna_runtime.abi import records


def resource(name: str) -> Path:
    """What stands at the root of a checkout and inside the package in a wheel: templates, runtime_c, LICENSE."""
    package = Path(__file__).resolve().parent.parent
    inside = package / name
    return inside if inside.exists() else package.parent.parent / name


#: How templates are read; what they are translated to follows it.
_SYNTAX: dict[str, Any] = {
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
    "autoescape": False,  # every language has an escaper of its own
}


class _Translated(jinja2.BytecodeCache):
    """Templates as Python's bytecode, kept from one process to the next: to translate those of C takes 0.14 s.

    Whoever reads it runs it: like machine code, it counts only where the cache is this user's alone.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        if (found := self._store().get(self._entry(bucket))) is not None:
            bucket.bytecode_from_string(found)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._store().put(self._entry(bucket), bucket.bytecode_to_string())

    @staticmethod
    def _store() -> Cache:
        return Cache("templates", cache_directory())

    @staticmethod
    def _entry(bucket: Bucket) -> str:
        versions = (__version__, jinja2.__version__, sys.version)
        return key(*versions, repr(_SYNTAX), bucket.key, bucket.checksum)


def environment() -> jinja2.Environment:
    """Where templates are found, and what they may name."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([resource("templates"), resource("runtime_c") / "include"]),
        undefined=jinja2.StrictUndefined,
        bytecode_cache=_Translated(),
        **_SYNTAX,
    )
    made.filters.update(comment=comment, java_comment=java_comment, javascript=javascript)
    made.globals.update(abi=abi, records=records, fetches=fetches)
    return made


_shared = lru_cache(maxsize=1)(environment)


def render_template(name: str, /, **values: Any) -> str:
    """A template's text for the given values."""
    return _shared().get_template(name).render(**values)
