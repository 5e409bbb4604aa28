"""The Python interface: what it refuses, in whose words, and before it does any work."""

from __future__ import annotations

import inspect
import os
import pydoc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna import api
from sterna.errors import SternaError
from sterna.targets.description import load_target

MODEL = Path(__file__).resolve().parents[2] / "compiler" / "sterna" / "demo" / "digits.onnx"


def refusal(function: Any, *arguments: Any, **settings: Any) -> SternaError:
    with pytest.raises(SternaError) as caught:
        function(*arguments, **settings)
    return caught.value


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be read or compiled."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the model was read")

    monkeypatch.setattr(api, "read_model", read)


@pytest.mark.parametrize(
    ("settings", "says", "fix"),
    [
        ({"threads": "2"}, "threads is '2' (str)", "threads=2"),
        ({"threads": True}, "threads is True", None),
        ({"threads": 0}, "threads is 0", None),
        ({"threads": 1.5}, "threads is 1.5", None),
        ({"target": 3}, "target is 3", 'target="host"'),
        ({"target": None}, "target is None", 'target="host"'),
        ({"generator": None}, "generator is None; one of c, llvm is needed", None),
        ({"generator": "fortran"}, "generator is 'fortran' (str)", None),
        ({"weights": "fp8"}, "weights is 'fp8' (str); one of fp32, fp16, bf16", None),
        ({"compiler": 1}, "compiler is 1", None),
        ({"math": "quick"}, 'math is \'quick\' (str); "exact", "fast" or "fast=BOUND" is', 'math="fast=1e-3"'),
        ({"math": "fast=0"}, "math is 'fast=0' (str); ", 'math="fast=1e-3"'),
        ({"math": "fast=-1e-3"}, "math is 'fast=-1e-3' (str); ", 'math="fast=1e-3"'),
        ({"math": "fast=nan"}, "a bound between 0 and 1", 'math="fast=1e-3"'),
        ({"math": "fast=a"}, "a bound between 0 and 1", 'math="fast=1e-3"'),
        ({"math": 1e-3}, "math is 0.001; ", 'math="fast=1e-3"'),
        ({"debug": 1}, "debug is 1; True or False", None),
        ({"signature": b"main"}, "signature is bytes", None),
        ({"dims": ["batch"]}, "dims is ['batch'] (list)", 'dims={"NAME": 1}'),
        ({"dims": {"batch": 1.0}}, 'dims["batch"] is 1.0', 'dims={"NAME": 1}'),
        ({"dims": {"batch": (1, 2, 3, 4)}}, 'dims["batch"] is (1, 2, 3, 4) (tuple)', "(1, 8)"),
        ({"dims": {3: 1}}, "a name in dims is 3", 'dims={"NAME": 1}'),
        ({"shapes": (1, 3, 8, 8)}, "shapes is (1, 3, 8, 8) (tuple)", 'shapes={"NAME": (1, 3, 224, 224)}'),
        ({"shapes": {"image": (1.0, 1, 8, 8)}}, 'shapes["image"] is (1.0, 1, 8, 8)', "shapes={"),
        ({"shapes": {"image": 8}}, 'shapes["image"] is 8', "shapes={"),
        ({"shapes": {"image": "1,1,8,8"}}, "shapes[\"image\"] is '1,1,8,8' (str)", "shapes={"),
        ({"output": b"there"}, "output is bytes", "os.fsdecode(path)"),
    ],
)
def test_arguments_of_the_wrong_type(idle: None, settings: dict[str, Any], says: str, fix: str | None) -> None:
    problem = refusal(sterna.compile, MODEL, **settings)
    assert problem.codes == ("E0203",)
    assert says in str(problem)
    assert ("fix: " in str(problem)) == (fix is not None)
    assert fix is None or fix in str(problem)


def test_models_of_the_wrong_type(idle: None) -> None:
    for model, says in (
        (os.fsencode(MODEL), f"fix: model={str(MODEL)!r}"),
        (MODEL.read_bytes(), "onnx.load_from_string"),
        (b"\x1c\0\0\0TFL3" + bytes(50), ".tflite"),
        (None, "model is None; a path, an onnx.ModelProto, "),
        ("", "model is '' (str); a path is needed"),
    ):
        assert says in str(refusal(sterna.compile, model))
    with MODEL.open("rb") as file:
        assert f"fix: model={str(MODEL)!r}, its path" in str(refusal(sterna.compile, file))


def test_everything_wrong_at_once(idle: None) -> None:
    problem = refusal(sterna.compile_to, 5, 3, target=[], threads="two", dims=7, progress="loud", single_file=None)
    assert problem.codes == ("E0203",) * 7
    for name in ("output", "model", "target", "threads", "dims", "progress", "single_file"):
        assert f"]: {name} is " in str(problem)


@pytest.mark.parametrize("target", ["raspberrypi4", "browser", "cortex-m4", "c99"])
def test_a_bundle_for_elsewhere_is_refused_at_once(idle: None, target: str) -> None:
    problem = refusal(sterna.compile, MODEL, target=target)
    assert problem.codes == ("E0507",)
    assert f'fix: sterna.compile_to("digits-{target}", "{MODEL}", target="{target}")' in str(problem)
    problem = refusal(sterna.compile, MODEL, target=load_target(target), output="there")
    assert f'fix: sterna.compile_to("there", "{MODEL}", target="{target}")' in str(problem)


def test_a_processor_that_lacks_something(idle: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sterna.runtime.here.cpu_has", lambda feature: False)
    problem = refusal(sterna.compile, MODEL, target="x86-64-v3" if os.uname().machine == "x86_64" else "arm64-i8mm")
    assert "this processor lacks " in str(problem)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    with sterna.compile(
        MODEL, shapes={"image": np.array([1, 1, 8, 8])}, threads=np.int64(2), debug=np.bool_(True), generator="llvm"
    ) as bundle:
        assert bundle.outputs[0].shape == (1, 10)


def test_advice_is_for_python(tmp_path: Path) -> None:
    import onnx

    model = onnx.load(MODEL)
    for axis, name in enumerate(("batch", None, "rows", "columns")):
        if name:
            model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    text = str(refusal(sterna.compile, model))
    assert 'dims={"batch": 1, "rows": <size>, "columns": <size>}' in text
    assert 'shapes={"image": (1, 1, <size>, <size>)}' in text
    assert "--" not in text
    with sterna.compile(MODEL, generator="llvm") as bundle:
        text = str(refusal(bundle.run, {"image": np.zeros((1, 1, 9, 8), np.float32)}))
        assert 'shapes={"image": (1, 1, 9, 8)}' in text
        text = str(refusal(bundle.run, {"image": np.zeros((1, 8, 8, 1), np.float32)}))
        assert "fix: array.transpose(0, 3, 1, 2)" in text
        assert "reshape" not in text
        for threads in ("2", True, 0):
            assert refusal(sterna.load, bundle.directory, threads).codes == ("E0501",)
        for directory in (b"there", None, 3):
            assert "directory is " in str(refusal(sterna.load, directory))
        assert refusal(bundle.profile, "3").codes == ("E0501",)


def test_the_module_lists_its_interface() -> None:
    assert dir(sterna) == sorted(sterna.__all__)
    assert all(getattr(sterna, name) is not None for name in sterna.__all__)
    with pytest.raises(AttributeError, match="no attribute 'complie'; did you mean 'compile'"):
        sterna.complie  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '__nothing__'$"):
        sterna.__nothing__  # noqa: B018
    page = pydoc.render_doc(sterna, renderer=pydoc.plaintext)
    assert "Compiles a model for this machine and loads it." in page
    assert "class Bundle" in page
    parameters = inspect.signature(sterna.compile).parameters
    assert list(parameters)[:4] == ["model", "target", "shapes", "dims"]
    assert parameters["weights"].default == "fp32"
