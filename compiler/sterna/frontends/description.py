"""What a model file holds, for `sterna inspect`, without compiling it; every front end describes its own."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.errors import Diagnostic


@dataclass(frozen=True)
class ModelTensor:
    """An input or output as the model declares it: sizes, names, or "?" for what is open; None: not even the rank."""

    name: str
    dtype: str
    dims: tuple[int | str, ...] | None

    def __str__(self) -> str:
        return f"{self.dtype}[{'...' if self.dims is None else ', '.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class OperatorUse:
    """An operator of the model. `support` is "yes", "expanded" (into others, as ONNX defines it), "folded",
    "unrolled" or "no"."""

    name: str
    nodes: int
    support: str


@dataclass(frozen=True)
class Description:
    """What a model holds.

    Args:
        file: the file's name.
        producer: the program that wrote it, where the file says so.
        opsets: versions of operators by domain, where the format has them.
        weights: how many numbers; weight_bytes: as they are stored.
        problems: why this version cannot compile it.
        format: the format's name, and what the file says beside it.
        signatures: names of the model's signatures, where the format has them.
        sizes_ready: open sizes need not be given: the file stands ready with some.
    """

    file: str
    producer: str
    opsets: dict[str, int]
    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]
    operators: tuple[OperatorUse, ...]
    nodes: int
    weights: int
    weight_bytes: int
    problems: tuple[Diagnostic, ...]
    format: str
    signatures: tuple[str, ...] = ()
    sizes_ready: bool = False

    @property
    def open_dims(self) -> tuple[str, ...]:
        """Named dimensions of the inputs that `--dim` can set."""
        names = (d for tensor in self.inputs for d in tensor.dims or () if isinstance(d, str) and d != "?")
        return tuple(dict.fromkeys(names))

    @property
    def open_inputs(self) -> tuple[str, ...]:
        """Inputs with dimensions that must be given."""
        return tuple(t.name for t in self.inputs if t.dims is None or any(isinstance(d, str) for d in t.dims))
