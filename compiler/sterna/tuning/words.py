"""Choices in words: what one decides otherwise than the rules do."""

from __future__ import annotations

from sterna.choices import Choice, Value

#: What the decisions of docs/tuning.md are called; others have their own names.
_NAMES = {
    "vector_bits": "vectors",
    "family": "strategy",
    "unrolled": "steps written out",
    "order": "first loop",
    "by_position": "by position",
    "finished_in_loop": "finished in a loop",
    "side_by_side": "streams side by side",
    "held": "sums held",
    "keep": "keep stages",
    "own": "of a thread",
    "panel": "columns of tiles at a time",
    "neighbours": "neighbours of a thread",
    "lanes": "threads of a row",
    "rows": "rows of a task",
    "exchanged": "by exchanges",
}
#: Of a decision that the rules did not have to make, since another one leads elsewhere.
_NONE = "none"


def difference(rules: Choice, choice: Choice) -> list[str]:
    """Every decision that is another one, as "tile 6 x 2 -> 8 x 2"; those that the rules did not ask for come last.

    Decisions that only the rules ask for follow from the others and are not named.
    """
    shared = [name for name in choice if name in rules and choice[name] != rules[name]]
    new = [name for name in choice if name not in rules]
    return [
        *(f"{_called(name)} {_said(name, rules[name])} -> {_said(name, choice[name])}" for name in shared),
        *(f"{_called(name)} {_NONE} -> {_said(name, choice[name])}" for name in new),
    ]


def _called(name: str) -> str:
    """A decision's name in words: the second one of a kernel is numbered."""
    base, _, number = name.partition(".")
    if base.startswith("keep_"):
        return f"keep {base.removeprefix('keep_')}"
    return _NAMES.get(base, base.replace("_", " ")) + (f" ({number})" if number else "")


def _said(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    return f"{value} bits" if name.startswith("vector_bits") else str(value).replace("_", " ")
