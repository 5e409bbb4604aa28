"""The garbage collector while a model is compiled."""

from __future__ import annotations

import gc

from sterna.api import compile_model
from support.tools import ROOT

DIGITS = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"


def test_what_lowering_makes_goes_without_the_collector() -> None:
    """References in circles would keep what a model was lowered through: the collector does not come meanwhile."""
    compile_model(DIGITS, "cortex-m4")  # what is remembered from one model to the next
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        compile_model(DIGITS, "cortex-m4")
        circles = gc.collect()
    finally:
        if was_on:
            gc.enable()
    assert circles < 1000, "100,000 when rewriting a value left a function behind that named itself"
