"""The numbered nodes of metadata that a module of LLVM assembly ends with."""

from __future__ import annotations


class Metadata:
    """Nodes, in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._numbers: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """What a node is referred to by; a distinct one is a new one each time."""
        if text in self._numbers:
            return self._numbers[text]
        self._nodes.append(text)
        number = f"!{len(self._nodes) - 1}"
        if not text.startswith("distinct"):
            self._numbers[text] = number
        return number

    def text(self) -> str:
        """The definitions."""
        return "\n".join(_definition(n, text) for n, text in enumerate(self._nodes))


def _definition(number: int, text: str) -> str:
    """A distinct node has itself as its first operand."""
    if text.startswith("distinct !{"):
        inner = text.removeprefix("distinct !{").removesuffix("}")
        text = f"distinct !{{!{number}{', ' if inner else ''}{inner}}}"
    return f"!{number} = {text}"
