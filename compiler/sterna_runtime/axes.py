"""What to do with an array whose axes are in another order than the model expects, without changing what elements mean.

A reshape of (1, 224, 224, 3) to (1, 3, 224, 224) runs, and scrambles the picture. So nothing here reshapes: axes change
places, and axes of one element come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

_MOST_AXES = 6  # orders of more are not looked for


def axes_fix(wanted: Sequence[int | str], found: Sequence[int]) -> str | None:
    """An expression over `array` that gives it the wanted axes; None where there is none.

    Args:
        wanted: sizes; one that is open is a string, and takes any.
        found: the array's sizes.
    """
    index = _index(wanted, found)
    ways = list(_orders(wanted, found)) if index is None or len(wanted) == len(found) else []
    if not ways:
        return None if index is None else f"array{index}"
    best = min(ways, key=lambda way: (_moved(way[0]), way[0]))
    text = f"array.transpose{best[0]}{best[1]}"
    if len(ways) == 1:
        return text
    others = sorted((way for way in ways if way != best), key=lambda way: (_moved(way[0]), way[0]))
    also = f"transpose{others[0][0]}{others[0][1]}" + (f" and {len(others) - 1} more" if len(others) > 1 else "")
    return f"{text}; {also} would fit these sizes too: take the one that puts every axis where the model has it"


def _orders(wanted: Sequence[int | str], found: Sequence[int]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Every order of the array's axes that fits, with the index that then adds axes."""
    if len(found) > _MOST_AXES or len(found) > len(wanted):
        return
    for order in permutations(range(len(found))):
        ordered = [found[axis] for axis in order]
        if len(ordered) == len(wanted):
            if all(map(_takes, wanted, ordered)):
                yield order, ""
        elif (index := _index(wanted, ordered)) is not None and "0" not in index:
            yield order, index


def _takes(wanted: int | str, found: int) -> bool:
    return isinstance(wanted, str) or wanted == found


def _moved(order: Sequence[int]) -> int:
    """How many axes change places beside the others, which keep their order."""
    longest = [1] * len(order)
    for n, axis in enumerate(order):
        longest[n] += max((longest[m] for m in range(n) if order[m] < axis), default=0)
    return len(order) - max(longest, default=0)


def _index(wanted: Sequence[int | str], found: Sequence[int]) -> str | None:
    """An index that adds and drops axes of one element, as few as need be: `[None]`, `[..., 0]`; "" for none."""
    best: dict[tuple[int, int], list[str] | None] = {}
    for i in range(len(wanted), -1, -1):
        for j in range(len(found), -1, -1):
            ways: list[list[str]] = [[]] if i == len(wanted) and j == len(found) else []
            for letter, fits, down, right in (
                (":", i < len(wanted) and j < len(found) and _takes(wanted[i], found[j]), 1, 1),
                ("None", i < len(wanted) and _takes(wanted[i], 1), 1, 0),
                ("0", j < len(found) and found[j] == 1, 0, 1),
            ):
                rest = best.get((i + down, j + right)) if fits else None
                if rest is not None:
                    ways.append([letter, *rest])
            best[i, j] = min(ways, key=lambda way: sum(letter != ":" for letter in way), default=None)
    way = best[0, 0]
    if way is None:
        return None
    while way and way[-1] == ":":
        way.pop()
    kept = sum(letter == ":" for letter in way)
    if kept > 1 and all(letter == ":" for letter in way[:kept]):
        way = ["...", *way[kept:]]
    return f"[{', '.join(way)}]" if way else ""
