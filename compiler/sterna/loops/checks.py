"""Tests at run time: stages whose result, a bool, must hold for the kernel to succeed."""

from __future__ import annotations

from dataclasses import replace

from sterna.ir.integer import ZERO
from sterna.loops import program as P
from sterna.te.expr import Load
from sterna.te.tensor import Kernel


def with_checks(function: P.Function, kernel: Kernel | P.Function) -> P.Function:
    """The function with a test of every output that is one: after it, or by the thread that stores it, since others may
    read what is there before."""
    if not isinstance(kernel, Kernel):
        return function
    body = function.body
    for buffer, output in zip(function.outputs, kernel.outputs, strict=True):
        if output.must_hold:
            test = P.Require(Load("bool", tensor=buffer, indices=(ZERO,)))
            stored = any(isinstance(s, P.Store) and s.buffer.name == buffer.name for s in P.walk(body))
            by_thread = function.has_threads and stored
            body = _behind_store(body, buffer.name, test) if by_thread else P.seq(body, test)
    return replace(function, body=body)


def _behind_store(stmt: P.Stmt, buffer: str, test: P.Require) -> P.Stmt:
    if isinstance(stmt, P.Store) and stmt.buffer.name == buffer:
        return P.seq(stmt, test)
    return P.map_children(stmt, lambda s: _behind_store(s, buffer, test))
