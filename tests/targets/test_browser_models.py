"""The trained float models, compiled for browsers: in Node they give what the host gives.

A sample of them is tried always, on two targets. With `STERNA_BROWSER_MODELS=all`, all models are, on all targets of
the family, those with threads by two: 310 bundles, most of an hour on one core, so that `-k` may choose some
(`-k "browser-baseline and llvm"`). `test_chromium.py` has the same choice of models.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.browser_models import ALL, FAMILY, MODELS, TARGETS, TOLERANCE, TRIED, golden_bundle
from support.tools import ROOT, need, run
from support.trained import FOLDER, sample

pytestmark = pytest.mark.family("wasm32")


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("target", FAMILY if ALL else TARGETS)
@pytest.mark.parametrize("name", TRIED)
def test_node_gives_what_the_host_gives(
    name: str, target: str, generator: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    node = need("node", "runs WebAssembly")
    bundle = golden_bundle(sample(name), target, tmp_path / "bundle", generator)
    script = ROOT / "runtime_js" / "test" / "replay-main.js"
    threads = "2" if target.endswith("threads") else "1"
    said = run(node, "--experimental-wasm-relaxed-simd", script, threads, bundle, cwd=tmp_path)
    (result,) = json.loads(said.splitlines()[-1]).values()
    assert "problem" not in result, result
    record_property("error", result["error"])
    assert result["sets"] == 1
    assert result["error"] <= TOLERANCE[FAMILY[target]]


def test_no_float_model_is_left_out() -> None:
    """Every float model of the folder is in the list, or is no network."""
    if not FOLDER.is_dir():
        pytest.skip("the development models are not here")
    no_networks = {"lightgbm_wine", "xgboost_breast_cancer_nan", "xgboost_digits"}
    no_networks |= {"sklearn_logreg_digits", "sklearn_rf_digits", "sklearn_svc_wine"}
    found = {folder.name for folder in FOLDER.iterdir() if (folder / "meta.json").is_file()}
    integers = {name for name in found if name.endswith(("_int8", "_u8", "_hybrid"))}
    assert found - no_networks - integers == set(MODELS) - {"digits"}
