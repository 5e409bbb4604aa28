"""What is raised where a size would have to be known."""

from __future__ import annotations

from typing import Any


class OpenSizeError(ValueError):
    """A number is wanted where there is an integer that is only known at run time: `value`, an `ir.integer.Int`."""

    def __init__(self, value: Any):
        super().__init__(f"{value} is not a constant")
        self.value = value
