"""A model's bundle for browsers, run in Node beside the host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sterna
from sterna.api import compile_to
from sterna.debug.golden import GoldenSet, golden_files
from support.tools import ROOT, need, run

Feeds = Sequence[Mapping[str, Any]]


def replay(model: Any, feeds: Feeds, place: Path, generator: str, tolerance: float = 1e-5, **options: Any) -> None:
    """Every set of inputs, one after another, on the host and in Node."""
    node = need("node", "runs WebAssembly")
    feeds = [{name: np.asarray(value) for name, value in feed.items()} for feed in feeds]
    with sterna.compile(model, **options) as host:
        sets = [GoldenSet(feed, {n: np.array(a) for n, a in host.run(feed).items()}) for feed in feeds]
    bundle = compile_to(place / "bundle", model, "browser", generator=generator, **options)
    for name, data in golden_files("the host", sets, tolerance).items():
        (bundle / name).write_bytes(data)
    said = run(node, ROOT / "runtime_js" / "test" / "replay-main.js", "1", bundle)
    (result,) = json.loads(said.splitlines()[-1]).values()
    assert "problem" not in result, result
    assert result["sets"] == len(feeds)
    assert result["error"] <= tolerance
