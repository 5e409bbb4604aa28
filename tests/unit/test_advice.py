"""Advice in errors: flags at the command line, arguments in Python; and never a reshape."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from sterna.errors import Diagnostic
from sterna_runtime.advice import Advice, Compile, Option, dims, fix_text, shapes
from sterna_runtime.axes import axes_fix
from sterna_runtime.inputs import TensorSpec, as_array

PACKAGE = Path(__file__).resolve().parents[2] / "compiler"


@pytest.mark.parametrize(
    ("advice", "cli", "python"),
    [
        (dims({"batch": 1}), "--dim batch=1", 'dims={"batch": 1}'),
        (dims({"a": 1, "seq": (0, "N")}), "--dim a=1 --dim seq=0..N", 'dims={"a": 1, "seq": (0, N)}'),
        (shapes({"x": (1, 3, 8)}), "--shape x=1,3,8", 'shapes={"x": (1, 3, 8)}'),
        (shapes({"x": (7,), "y": None}), "--shape x=7 --shape y=none", 'shapes={"x": (7,), "y": None}'),
        (shapes({"x[0]": (2,)}), '--shape "x[0]=2"', 'shapes={"x[0]": (2,)}'),
        (
            Option("device_for", {"softmax": "cpu"}),
            "--device-for softmax=cpu",
            'device_for={"softmax": "cpu"}',
        ),
        (Option("target", "host"), "--target host", 'target="host"'),
        (Option("single_file", True), "--single-file", "single_file=True"),
        (Option("compiler", "gcc"), "--cc gcc", 'compiler="gcc"'),
        (Option("port", 0), "--port 0", "port=0"),
        (Option("bound"), "--bound", "bound"),
        (
            Compile("m.onnx", "m-pi", (Option("target", "raspberrypi4"),)),
            "sterna compile m.onnx --target raspberrypi4 -o m-pi",
            'sterna.compile_to("m-pi", "m.onnx", target="raspberrypi4")',
        ),
        (Advice("a ", Advice(dims({"n": 2}), " b")), "a --dim n=2 b", 'a dims={"n": 2} b'),
        ("the same", "the same", "the same"),
    ],
)
def test_advice_as_flags_and_as_arguments(advice: Advice, cli: str, python: str) -> None:
    assert (fix_text(advice, "cli"), fix_text(advice, "python")) == (cli, python)
    diagnostic = Diagnostic("E0105", "what", ("where",), advice)
    assert diagnostic.text("cli").endswith(f"fix: {cli}")
    assert str(diagnostic).endswith(f"fix: {python}")
    assert pickle.loads(pickle.dumps(diagnostic)) == diagnostic


def test_fixes_are_no_flags() -> None:
    """A flag in the text of an error is one that Python's users read too; the command line's own modules may."""
    flag = re.compile(r"(?<![\w-])--[a-z]")
    # Command lines of other programs, or what a command prints.
    programs = {"link.py", "recipe.py", "doctor.py", "java.py", "natives.py", "slices.py", "deb.py", "remote.py"}
    programs |= {"build.py", "firmware.py", "engines.py", "weights.py", "llvm_machine.py"}
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name == "cli" or path.name in programs or path.name in ("error_codes.py", "advice.py"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        documentation = {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
        } | {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        wrong += [
            f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node not in documentation
            and flag.search(node.value)
            and node.value not in ("--version", "--export=")
            and not node.value.startswith(("pip install ", "sterna "))
        ]
    assert wrong == []


@pytest.mark.parametrize(
    ("wanted", "found", "advice"),
    [
        ((1, 3, 224, 320), (1, 224, 320, 3), "array.transpose(0, 3, 1, 2)"),
        ((1, 224, 320, 3), (1, 3, 224, 320), "array.transpose(0, 2, 3, 1)"),
        ((1, 3, 8, 9), (8, 9, 3), "array.transpose(2, 0, 1)[None]"),
        (("batch", 3, 8, 9), (5, 8, 9, 3), "array.transpose(0, 3, 1, 2)"),
        (("batch", 3, 8, 9), (3, 8, 9), "array[None]"),
        ((3, 8, 9), (1, 3, 8, 9), "array[0]"),
        ((3, 4, 1), (3, 4), "array[..., None]"),
        ((3, 4), (3, 4, 1), "array[..., 0]"),
        ((1, 1, 8, 8), (8, 8), "array[None, None]"),
        ((1,), (), "array[None]"),
        ((1, 1, 8, 8), (64,), None),
        ((6, 4), (8, 3), None),
        ((2, 3, 4, 5, 6, 7, 8), (8, 7, 6, 5, 4, 3, 2), None),
    ],
)
def test_what_to_do_with_axes(wanted: tuple[int | str, ...], found: tuple[int, ...], advice: str | None) -> None:
    assert axes_fix(wanted, found) == advice
    if advice is not None:
        array = np.arange(int(np.prod(found))).reshape(found)
        made = eval(advice, {"array": array})  # ours, and what a user would type
        assert all(isinstance(w, str) or w == n for w, n in zip(wanted, made.shape, strict=True))


def test_an_order_of_axes_that_is_not_the_only_one() -> None:
    """Square pictures: the axis that moves alone is the channels', and the other order is named."""
    text = axes_fix((1, 3, 224, 224), (1, 224, 224, 3))
    assert text is not None
    assert text.startswith("array.transpose(0, 3, 1, 2); transpose(0, 3, 2, 1) would fit these sizes too")
    assert axes_fix((1, 224, 224, 3), (1, 3, 224, 224)).startswith("array.transpose(0, 2, 3, 1); ")
    assert "and 4 more" in str(axes_fix((1, 2, 2, 2), (2, 2, 2, 1)))


@pytest.mark.parametrize("found", [(1, 8, 8, 3), (8, 8, 3), (3, 8, 8), (192,), (3, 64), (8, 3, 8, 1), (2, 3, 8, 8)])
def test_no_array_is_reshaped(found: tuple[int, ...]) -> None:
    spec = TensorSpec("x", np.dtype(np.float32), (1, 3, 8, 8))
    (problem,) = as_array(spec, np.zeros(found, np.float32))
    assert problem.code == "E0604"
    assert "reshape" not in str(problem)
