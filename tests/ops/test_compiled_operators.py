"""Every declared operator on its own test cases, compiled: both generators, and both dialects of C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sterna.targets.description import host
from sterna.targets.target import Target
from support.compiling import build
from support.every_operator import agree, every_operator


def plain() -> Target:
    """This machine without vectors."""
    return replace(host(), dialect="plain", vector_bits=0)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(
    ("generator", "target"),
    [
        pytest.param("c", host(), id="c", marks=pytest.mark.family("host-c")),
        pytest.param("llvm", host(), id="llvm", marks=pytest.mark.family("host-llvm")),
        pytest.param("c", plain(), id="plain-c", marks=pytest.mark.family("host-c")),
        pytest.param("llvm", replace(host(), vector_bits=128), id="llvm-narrow", marks=pytest.mark.family("host-llvm")),
    ],
)
def test_compiled_equals_interpreted(generator: str, target: Target, part: int, tmp_path: Path) -> None:
    graph, inputs, expected = every_operator(part=part, parts=4)
    with build(graph, tmp_path / "bundle", target, generator) as bundle:
        agree(bundle.run(inputs), expected)
