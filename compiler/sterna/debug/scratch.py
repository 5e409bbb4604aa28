"""Folders for bundles that are looked at and removed."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sterna.errors import SternaError
from sterna.scratch import temporary_directory


@contextlib.contextmanager
def folder_for(name: str) -> Iterator[Path]:
    """A temporary folder for bundles of the model of that name. Errors within it name the model in place of a bundle,
    which is gone when somebody reads them."""
    with temporary_directory("verify") as folder:
        try:
            yield Path(folder)
        except SternaError as problem:
            bundle = re.compile(re.escape(f"{folder}{os.sep}") + r"\w+")

            def named(text: str) -> str:
                return bundle.sub(lambda _: name, text)

            raise SternaError(
                replace(each, title=named(each.title), where=tuple(map(named, each.where)))
                for each in problem.diagnostics
            ) from problem
