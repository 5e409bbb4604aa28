"""Channels that say nothing take nothing of a microcontroller."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sterna.api import compile_to
from support import boards
from support.trained import trained


def test_a_network_that_was_trained(tmp_path: Path) -> None:
    """Of the visual wake words' 128 channels most say nothing: 85 KB instead of 274, results equal."""
    found = trained("mlperf_tiny_vww_int8")
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m4", shapes=found.shapes())
    assert (bundle / "params.bin").stat().st_size < 64 << 10
    whole = compile_to(tmp_path / "whole", found.file, "cortex-m4", shapes=found.shapes(), debug=True)
    assert (whole / "params.bin").stat().st_size > 200 << 10  # every tensor can be read, with all channels
    got = boards.run_on_board(bundle, list(found.cases[0].inputs.values()), found.cases[0].outputs)
    np.testing.assert_array_equal(got[0], found.cases[0].outputs[0])
