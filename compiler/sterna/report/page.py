"""The page that draws a report: one file that needs nothing else, or, served, a page beside its script and style.

The script is built from `report_page/` (CONTRIBUTING.md) and stands in `templates/report`. The page's own policy allows
this script and this style by their hashes, and nothing from anywhere else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sterna.codegen.render import render_template, resource
from sterna.escape import javascript

_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'"
)


def page(document: Mapping[str, Any]) -> str:
    """The whole of a report as one file of HTML."""
    script, style = _part("page.js"), _part("page.css")
    policy = _POLICY.format(script=_allowed(script), style=_allowed(style))
    return _rendered(document, policy, f"<style>{style}</style>", f"<script>{script}</script>")


def served_files(document: Mapping[str, Any], measure: str) -> dict[str, bytes]:
    """The same as files of a server that allows scripts of its own origin only.

    Args:
        measure: the address of the page that measures the bundle in the browser, and keeps for the report what it
            measured, with the hash in `hash.json`.
    """
    policy = _POLICY.format(script="'self'", style="'self'")
    style, script = '<link rel="stylesheet" href="page.css">', '<script src="page.js"></script>'
    html = _rendered(document, policy, style, script, measure)
    files = {"index.html": html, "page.js": _part("page.js"), "page.css": _part("page.css")}
    files["hash.json"] = json.dumps(document["subjects"][0]["hash"])
    return {name: text.encode() for name, text in files.items()}


def _rendered(document: Mapping[str, Any], policy: str, style: str, script: str, measure: str = "") -> str:
    parts = {"policy": policy, "style": style, "script": script, "measure": measure, "data": javascript(document)}
    return render_template("report/page.html.j2", **parts)


def _part(name: str) -> str:
    return (resource("templates") / "report" / name).read_text(encoding="utf-8")


def _allowed(text: str) -> str:
    """A source expression of Content Security Policy that allows this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
