"""The compiler and the runtime for Python are of one version, in every file that says it."""

from __future__ import annotations

import importlib
import re

import pytest

import sterna_runtime
from sterna import version
from sterna_runtime.errors import SternaError
from support.tools import ROOT


def test_all_files_say_the_same_version() -> None:
    projects = [ROOT / "pyproject.toml", ROOT / "runtime_python" / "pyproject.toml"]
    stated = [re.findall(r'^version = "(.*)"$', path.read_text("utf-8"), re.MULTILINE) for path in projects]
    assert version.__version__ == sterna_runtime.__version__
    assert stated == [[version.__version__]] * 2


def test_e0521_mixed_versions_are_refused_when_they_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sterna_runtime.version.__version__", "9.9")
    with pytest.raises(SternaError, match=r"sterna \S+ is installed with sterna_runtime 9\.9") as caught:
        importlib.reload(version)
    assert caught.value.codes == ("E0521",)
    assert "--force-reinstall sterna==" in str(caught.value)
