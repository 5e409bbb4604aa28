"""Writes a network of bench/architectures.py to ONNX, by the exporter of torch that goes through torch.export.

    python export_architecture.py NAME TARGET.onnx

Weights are random, of a fixed seed. What the packages start at one value (scales of norms, gates that begin closed) is
moved a little, so that no part of a network is a constant; statistics of batch normalization are taken from random
input, so that activations keep a sane range through deep networks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn
from transformers.models.whisper import modeling_whisper

from architectures import ARCHITECTURES, Architecture


class First(nn.Module):
    """The first result of a network, whatever it wraps its results in; inputs by position."""

    def __init__(self, network: nn.Module, names: list[str]):
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *given: Tensor) -> Tensor:
        found = self.network(**dict(zip(self.names, given, strict=True)))
        while not isinstance(found, Tensor):
            found = next(iter(found.values())) if isinstance(found, Mapping) else found[0]
        return found


def build(described: Architecture) -> nn.Module:
    """The network, its inputs by position."""
    names = list(described.inputs)
    if described.package == "torchvision":
        network = torchvision.models.get_model(described.model, weights=None, **described.options)
        return Heads(network) if hasattr(network, "anchor_generator") else First(network, names)
    if described.package == "timm":
        return First(timm.create_model(described.model, pretrained=False, exportable=True, **described.options), names)
    kind = getattr(transformers, described.model, None) or getattr(modeling_whisper, described.model)
    return First(kind(kind.config_class(**described.options)), names)


class Heads(nn.Module):
    """A detector of torchvision without what turns scores to boxes: backbone and heads."""

    def __init__(self, detector: Any):
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.head(list(self.backbone(x).values()))
        return found["bbox_regression"], found["cls_logits"]


def sample(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if name == "attention_mask":
        return torch.ones(shape, dtype=torch.int64)
    if name.startswith("input_ids"):
        return torch.randint(3, 999, shape, generator=generator)
    return torch.randn(*shape, generator=generator)


def settle(network: nn.Module, described: Architecture, generator: torch.Generator) -> None:
    """Moves what is at one value, and takes the statistics of batch normalization."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.is_floating_point() and bool((parameter == parameter.flatten()[0]).all()):
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    network.eval()
    normalizations = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not normalizations:
        return
    for normalization in normalizations:
        normalization.momentum = None
        normalization.train()
    with torch.no_grad():
        for _ in range(2):  # two images at once: one value of a channel has no variance
            network(*(sample(k, (2, *shape[1:]), generator) for k, shape in described.inputs.items()))
    network.eval()


def main() -> None:
    name, target = sys.argv[1], Path(sys.argv[2])
    described = ARCHITECTURES[name]
    torch.manual_seed(0)
    network = build(described)
    generator = torch.Generator().manual_seed(1)
    settle(network, described, generator)
    values = tuple(sample(key, shape, generator) for key, shape in described.inputs.items())
    partial = target.with_suffix(".partial.onnx")
    with torch.no_grad():
        torch.onnx.export(
            network, values, str(partial), dynamo=True, external_data=False, input_names=list(described.inputs)
        )
    partial.replace(target)


if __name__ == "__main__":
    main()
