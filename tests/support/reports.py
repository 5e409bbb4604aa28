"""Reports in Chromium: what the page's own packages build, and a script that uses pages as people do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.tools import ROOT, need, run

PAGE = ROOT / "report_page"


def page_packages() -> Path:
    """The development packages of the page, or a skip."""
    if not (PAGE / "node_modules").is_dir():
        pytest.skip("needs npm: `npm ci` in report_page installs what this test runs")
    return PAGE / "node_modules"


def in_chromium(what: str, *arguments: str | Path) -> Any:
    """What the script says of reports: `tour`, `speed`, `hot` or `visit`."""
    need("chromium", "the browser that pages are tested in")
    page_packages()
    return json.loads(
        run(need("node", "drives the browser"), PAGE / "test" / "report.js", what, *arguments, timeout=280)
    )
