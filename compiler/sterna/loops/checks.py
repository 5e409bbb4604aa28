"""Tests at run time: stages whose result, a bool, must hold for the kernel to succeed."""

from __future__ import annotations

from dataclasses import replace

from sterna.ir.integer import ZERO
from sterna.loops import program as P
from sterna.te.expr import Load
from sterna.te.tensor import Kernel


def with_checks(function: P.Function, kernel: Kernel | P.Function) -> P.Function:
    """The function with a test after it of every output that is one."""
    if not isinstance(kernel, Kernel):
        return function
    tests = [
        P.Require(Load("bool", tensor=buffer, indices=(ZERO,)))
        for buffer, output in zip(function.outputs, kernel.outputs, strict=True)
        if output.must_hold
    ]
    return replace(function, body=P.seq(function.body, *tests)) if tests else function
