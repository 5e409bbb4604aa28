"""Names of networks with a batch."""

from __future__ import annotations

import re


def network_and_batch(name: str) -> tuple[str, int]:
    """`resnet50_b8` is resnet50 with batch 8, a name without such an end batch 1."""
    found = re.fullmatch(r"(\w+)_b([1-9]\d*)", name)
    return (found[1], int(found[2])) if found else (name, 1)
