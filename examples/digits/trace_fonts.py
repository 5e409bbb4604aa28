"""Makes pen strokes of digits: strokes.json, which train.py learns from, and the drawings that the page is tested with.

    pip install numpy pillow
    python examples/digits/trace_fonts.py FONTS

FONTS is a folder of fonts made from the handwriting of thirty people, each a file NAME.woff or .ttf (all from Google
Fonts, in npm's packages @fontsource/NAME; SIL Open Font License 1.1, two of them Apache-2.0). A digit is drawn large,
thinned to lines of one pixel (Zhang and Suen, "A fast parallel algorithm for thinning digital patterns", 1984), and the
lines are followed from end to end. Strokes as mice and fingers make them, with corners and few points, are written out
in hands.py. What training sees and what the test draws have no hand in common.

Writes strokes.json beside this file and tests/targets/drawings.json. The same fonts give the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from hands import SEEN, UNSEEN
from PIL import Image, ImageDraw, ImageFont
from strokes import Strokes, bent, unit

HERE = Path(__file__).resolve().parent
DRAWINGS = HERE.parents[1] / "tests" / "targets" / "drawings.json"
#: The side of the page's paper.
PAPER = 320

TRAINING = (
    "annie-use-your-telescope", "architects-daughter", "bad-script", "cedarville-cursive", "covered-by-your-grace",
    "delius", "gaegu", "gloria-hallelujah", "gochi-hand", "homemade-apple", "itim", "kalam", "mansalva", "neucha",
    "nanum-pen-script", "patrick-hand", "reenie-beanie", "short-stack", "sue-ellen-francisco", "swanky-and-moo-moo",
)  # fmt: skip
TESTING = (
    "caveat", "handlee", "indie-flower", "marck-script", "poor-story", "schoolbell", "shadows-into-light", "sriracha",
    "the-girl-next-door", "yomogi",
)  # fmt: skip

#: Neighbours of a pixel in a circle, from the one above on, as (row, column).
AROUND = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


def thinned(ink: np.ndarray) -> np.ndarray:
    """The middle lines of a black and white picture."""
    ink = np.pad(ink, 1).astype(np.uint8)
    while True:
        before = ink.copy()
        for first in (True, False):
            n = [np.roll(ink, (-row, -column), (0, 1)) for row, column in AROUND]
            neighbours = sum(n[1:], n[0].copy())
            changes = sum(((n[i] == 0) & (n[(i + 1) % 8] == 1)).astype(np.uint8) for i in range(8))
            a, b = (n[0] * n[2] * n[4], n[2] * n[4] * n[6]) if first else (n[0] * n[2] * n[6], n[0] * n[4] * n[6])
            ink = ink & ~((neighbours >= 2) & (neighbours <= 6) & (changes == 1) & (a == 0) & (b == 0))
        if (ink == before).all():
            return ink[1:-1, 1:-1]


def followed(lines: np.ndarray) -> list[list[tuple[int, int]]]:
    """Paths of neighbouring pixels between ends and crossings, and closed ones; (x, y)."""
    left = {(int(x), int(y)) for y, x in np.argwhere(lines)}

    def beside(at: tuple[int, int]) -> list[tuple[int, int]]:
        # Straight neighbours first, and a diagonal one only where no straight one leads there: no corner counts twice.
        found = [(at[0] + x, at[1] + y) for y, x in AROUND[::2] if (at[0] + x, at[1] + y) in left]
        for y, x in AROUND[1::2]:
            if (at[0] + x, at[1] + y) in left and not {(at[0] + x, at[1]), (at[0], at[1] + y)} & left:
                found.append((at[0] + x, at[1] + y))
        return found

    graph = {at: beside(at) for at in sorted(left)}
    corners = [at for at, others in graph.items() if len(others) != 2]
    used: set[frozenset[tuple[int, int]]] = set()
    paths = []
    for start in [*corners, *graph]:
        for step in graph[start]:
            if frozenset((start, step)) in used:
                continue
            path = [start, step]
            used.add(frozenset((start, step)))
            while len(graph[path[-1]]) == 2 and path[-1] != start:
                onward = next((n for n in graph[path[-1]] if frozenset((path[-1], n)) not in used), None)
                if onward is None:
                    break
                used.add(frozenset((path[-1], onward)))
                path.append(onward)
            paths.append(path)
    return paths


def simplified(path: np.ndarray, tolerance: float) -> np.ndarray:
    """A polyline with fewer points, nowhere further from them than the tolerance (Douglas and Peucker, 1973)."""
    if len(path) < 3:
        return path
    a, b = path[0], path[-1]
    along = b - a
    length = np.hypot(*along)
    away = path - a
    distance = np.abs(along[0] * away[:, 1] - along[1] * away[:, 0]) / length if length else np.hypot(*away.T)
    far = int(distance.argmax())
    if distance[far] <= tolerance:
        return np.stack([a, b])
    return np.concatenate([simplified(path[: far + 1], tolerance)[:-1], simplified(path[far:], tolerance)])


def traced(font: ImageFont.FreeTypeFont, digit: int) -> Strokes:
    """The strokes of a font's digit, 1 high."""
    image = Image.new("L", (400, 400), 0)
    ImageDraw.Draw(image).text((200, 200), str(digit), font=font, fill=255, anchor="mm")
    ink = np.asarray(image.crop(image.getbbox())) > 127
    height = ink.shape[0]
    paths = followed(thinned(np.pad(ink, 2)))
    degree: dict[tuple[int, int], int] = {}
    for path in paths:
        for end in (path[0], path[-1]):
            degree[end] = degree.get(end, 0) + 1
    # Thinning leaves short hairs at the ends of broad strokes.
    kept = [p for p in paths if len(p) > 0.09 * height or (degree[p[0]] > 1 and degree[p[-1]] > 1)]
    return unit([simplified(np.array(path, np.float64), 0.012 * height) for path in kept or paths])


def rounded(strokes: Strokes, scale: float) -> list[list[list[int]]]:
    return [[[round(scale * x), round(scale * y)] for x, y in stroke.tolist()] for stroke in strokes]


def drawing(strokes: Strokes, random: np.random.Generator) -> Strokes:
    """Strokes on the paper: of any size, anywhere, leaning and trembling a little, in few or many points."""
    strokes = bent(strokes, random, lean=0.15, turn=0.1, stretch=0.15, tremble=0.012)
    size = float(np.exp(random.uniform(np.log(40), np.log(290))))
    points = np.concatenate(strokes)
    scale = size / max(np.ptp(points, axis=0).max(), 1e-9)
    low, high = scale * points.min(0), scale * points.max(0)
    shift = random.uniform(6 - low, PAPER - 6 - high)
    return [scale * stroke + shift for stroke in strokes]


def rows(hands: Mapping[str, Sequence[Strokes]], change: Callable[[Strokes], list[list[list[int]]]]) -> list[str]:
    """A line of JSON for each digit of each hand."""
    return [
        json.dumps({"hand": hand, "digit": digit, "strokes": change(strokes)}, separators=(",", ":"))
        for hand, digits in hands.items()
        for digit, strokes in enumerate(digits)
    ]


def main(folder: Path) -> None:
    def hands(names: Sequence[str]) -> dict[str, list[Strokes]]:
        files = {name: next(p for p in folder.rglob(f"{name}.*") if p.suffix in (".woff", ".ttf")) for name in names}
        fonts = {name: ImageFont.truetype(file, 180) for name, file in files.items()}
        return {name: [traced(font, digit) for digit in range(10)] for name, font in fonts.items()}

    random = np.random.default_rng(11)
    styles = rows({**hands(TRAINING), **SEEN}, lambda strokes: rounded(unit(strokes), 100))
    drawings = []
    for unseen in (hands(TESTING), UNSEEN, UNSEEN):
        drawings += rows(unseen, lambda strokes: rounded(drawing(unit(strokes), random), 1))
    for path, lines in ((HERE / "strokes.json", styles), (DRAWINGS, drawings)):
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
        print(f"{path}: {len(lines)} digits, {path.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
