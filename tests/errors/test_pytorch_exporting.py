"""What PyTorch says of a module that it cannot export becomes a coded error with what mends it, without PyTorch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.pytorch.exporting import exported, is_to_resolve
from support.exported_programs import Program

MESSAGES = {
    "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).\n\nconsider": "torch.where",
    'Constraints violated (b)! For more, run with TORCH_LOGS="+dynamic".\n  - You marked b as dynamic but your code '
    "specialized it to be a constant (2).\nSuggested fixes:\n  b = 2": "out of dynamic_shapes",
    "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: 1 and 2": "torch.export.Dim",
    "expected dynamic_shapes to be dict, tuple, or list, got <class 'str'>": "torch.export.Dim",
    ".numpy() is not supported for tensor subclasses.": "compute with tensors",
    "Exporting a ScriptModule is not supported.": ".pt file",
    "__torch__.torch.classes.quantized.LinearPackedParamsBase does not have a field": "pt2e or torchao",
    "Expected all tensors to be on the same device, but found at least two devices, cpu and cuda!": "module.cpu()",
    "something else": "torch.export.export(module, example_inputs) says more",
}


class Module:
    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return x * scale


def _torch(message: str) -> Any:
    def export(*_: Any, **__: Any) -> None:
        raise RuntimeError(message)

    return SimpleNamespace(no_grad=nullcontext, export=SimpleNamespace(export=export))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_module_that_pytorch_cannot_export(message: str) -> None:
    with pytest.raises(SternaError, match="cannot export the module Module") as caught:
        exported(_torch(message), Module(), (1,), None)
    assert caught.value.codes == ("E0113",)
    assert MESSAGES[message] in str(caught.value)
    if "Constraints" in message:
        assert "You marked b as dynamic" in str(caught.value)


@pytest.mark.parametrize("given", [(), (1, 2, 3), {"y": 1}, {"x": 1, "y": 2}])
def test_example_inputs_that_are_no_arguments(given: Any) -> None:
    with pytest.raises(SternaError, match=r"arguments \(x: Any, scale: float = 1.0\)|arguments \(x") as caught:
        exported(_torch("not reached"), Module(), given, None)
    assert caught.value.codes == ("E0106",)


def test_an_output_that_only_training_needs_is_refused_and_not_left_out(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (1, 2, 3, 4), "float32")
    target = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    for made in program.call(target, "y", "sums", query=x, key=x, value=x):
        program.output(made)
    with pytest.raises(SternaError, match='output "sums"') as caught:
        read_model(program.write(tmp_path / "m.pt2"))
    assert caught.value.codes == ("E0113",)


def test_a_complex_output_says_what_to_return(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (4, 2), "float32")
    z = program.call("aten.view_as_complex.default", "z", self=x)
    program.tensor("z", "complex64", (4,))
    program.output(z)
    with pytest.raises(SternaError, match="view_as_real") as caught:
        read_model(program.write(tmp_path / "m.pt2"))
    assert caught.value.codes == ("E0111",)


@pytest.mark.parametrize(
    ("target", "module", "args", "resolved"),
    [
        ("_add_batch_dim", "torch._functorch.predispatch", (), True),
        ("wrap_with_autocast", "torch._higher_order_ops.wrap", ("cpu", None, True), True),
        ("wrap_with_autocast", "torch._higher_order_ops.wrap", ("cpu", None, False), False),
        ("add.Tensor", "torch._ops.aten", (), False),
    ],
)
def test_what_pytorch_resolves_itself(target: str, module: str, args: tuple[Any, ...], resolved: bool) -> None:
    """`vmap` and autocast, wherever in the program they stand."""
    inner = SimpleNamespace(
        graph=SimpleNamespace(
            nodes=[SimpleNamespace(target=SimpleNamespace(__name__=target, __module__=module), args=args)]
        )
    )
    program = SimpleNamespace(graph_module=SimpleNamespace(modules=lambda: [SimpleNamespace(), inner]))
    assert is_to_resolve(program) is resolved


def test_a_file_with_what_pytorch_resolves(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (4, 2))
    program.output(program.call("torch._functorch.predispatch._add_batch_dim", self=x, dim=0, level=1))
    with pytest.raises(SternaError, match=r"save program.run_decompositions\(\)") as caught:
        read_model(program.write(tmp_path / "m.pt2"))
    assert caught.value.codes == ("E0104",)


def test_antialias_that_aligns_corners_is_refused(tmp_path: Path) -> None:
    """PyTorch takes the corners' factor without their places."""
    program = Program()
    settings = {"output_size": [3, 3], "align_corners": True}
    program.output(program.call("aten._upsample_bilinear2d_aa.vec", input=program.input("x", (1, 1, 6, 6)), **settings))
    with pytest.raises(SternaError, match="with align_corners") as caught:
        read_model(program.write(tmp_path / "m.pt2"))
    assert caught.value.codes == ("E0113",)
