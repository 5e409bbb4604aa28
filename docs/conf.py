"""Configuration of the docs site: Sphinx over the Markdown files of the repository. `ci/docs` builds it.

The pages stay where they are, readable on a code host. What they do not say there is added while building: the table of
contents, and the interfaces of C and JavaScript, which come from the sources (`interfaces.py`).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "compiler")]

import interfaces  # noqa: E402

from sterna.version import __version__  # noqa: E402

project = "Sterna"
copyright = "the Sterna authors, Apache-2.0"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
#: Title of a part of the table of contents -> its pages.
CONTENTS = {
    "Start": ("docs/installation", "docs/tutorial", "docs/comparison", "docs/tvm"),
    "Guides": (
        "docs/cli",
        "docs/report",
        "docs/quantize",
        "docs/tuning",
        "docs/rpc",
        "docs/gpu",
        "docs/web",
        "docs/android",
        "docs/ios",
        "docs/cpp",
        "docs/raspberry-pi",
        "docs/firmware",
        "docs/windows-macos",
        "runtime_c/README",
        "runtime_js/README",
        "runtime_android/README",
        "runtime_python/README",
        "docs/security",
    ),
    "When it does not work": ("docs/troubleshooting", "docs/errors"),
    "Reference": (
        "docs/python",
        "docs/c",
        "docs/javascript",
        "docs/operators",
        "docs/frontends",
        "docs/bundle",
        "docs/misra",
    ),
    "Background": ("docs/architecture", "docs/targets", "docs/performance"),
    "Examples": ("examples/c/README", "examples/bundlers/README"),
    "Project": ("CONTRIBUTING", "SECURITY", "CHANGELOG"),
}
include_patterns = ["*.md", "docs/*.md", "runtime_*/README.md", "examples/*/README.md"]
exclude_patterns = [".venv", "build", "**/node_modules"]

myst_heading_anchors = 4
highlight_language = "none"  # of indented blocks; fenced ones say theirs
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
add_module_names = False
default_role = "code"  # of `x` in docstrings
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"Sterna {__version__}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

_INTERFACE = re.compile(r"<!-- interface (\w+) -->")


def contents() -> str:
    """The table of contents, as the start page has it."""
    return "\n\n".join(
        "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *(f"/{page}" for page in pages), "```"])
        for title, pages in CONTENTS.items()
    )


def complete(_app: Any, name: str, source: list[str]) -> None:
    """Adds to a page what only the site has."""
    if name == root_doc:
        source[0] += f"\n\n{contents()}\n"
    source[0] = _INTERFACE.sub(lambda match: interfaces.PAGES[match[1]](), source[0])


def lead_in(app: Any, problem: Exception | None) -> None:
    """`index.html`, which servers show first, leads to the start page."""
    if problem is None:
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html"><title>Sterna</title>'
        Path(app.outdir, "index.html").write_text(f'{page}<a href="{root_doc}.html">Sterna</a>\n', "utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", complete)
    app.connect("build-finished", lead_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
