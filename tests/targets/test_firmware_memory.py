"""What firmware takes of a board's memory: plans of MLPerf Tiny's networks, and what bounds them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sterna.api import compile_to
from sterna.driver import Options, outline_of, reading
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.passes.stages import Outline
from sterna.targets.description import load_target
from support.trained import trained


def outline(model: str, target: str = "cortex-m4") -> Outline:
    options = Options(load_target(target))
    return outline_of(read_model(Source.of(trained(model).file), reading(options)), options)


#: Bytes of the arena without scratch.
PLANS = {"kws": 20096, "vww": 56896, "resnet": 54464, "ad": 256}


@pytest.mark.parametrize("model", PLANS)
def test_plans_reach_what_is_alive_at_one_time(model: str) -> None:
    plan = outline(f"mlperf_tiny_{model}_int8").plan
    assert plan.arena_bytes == plan.live_bytes <= PLANS[model]


def test_a_sum_of_two_layers_stores_bytes() -> None:
    """Of two integer convolutions that are added up, the one computed first stores what the model says, bytes, and not
    the 32-bit sums that those are made of."""
    found = outline("mlperf_tiny_resnet_int8")
    made = {value.dtype for call in found.sequence.calls for value in call.outputs}
    assert "int32" not in made


def test_firmware_aligns_for_its_core(tmp_path: Path) -> None:
    """One alignment of arena, weights and tables, that of the widest type; the header says it."""
    found = trained("mlperf_tiny_kws_int8")
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m4", shapes=found.shapes())
    header, sources = (bundle / "model.h").read_text(), (bundle / "kernels.c").read_text()
    assert re.findall(r"_ALIGNMENT (\d+)", header) == ["8"]
    assert re.findall(r"aligned\((\d+)\)", sources) == ["8"]
    assert "64-byte" not in sources
