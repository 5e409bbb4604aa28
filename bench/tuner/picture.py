"""The curves as one SVG: a panel for each kernel and device, a line and a band for each explorer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from html import escape

from tuner.curves import Panel, at
from tuner.kernels import DEVICES, KERNELS
from tuner.replay import TRIALS, WAYS, WITHIN

WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 150, 130, 64, 26
COLOURS = ("#d62728", "#7f7f7f", "#1f77b4", "#2ca02c", "#9467bd", "#17becf", "#ff7f0e")
_FONT = 'font-family="sans-serif" font-size="12"'
#: Trials at which curves are drawn: dense in the beginning.
_AT = sorted({round(TRIALS ** (n / 60)) for n in range(61)} | {0, WITHIN})
#: The lowest speed shown, in parts of the best.
_FLOOR = 0.4
#: Room above the best, so that its lines are no part of the frame.
_ABOVE = 10


def svg(found: Sequence[Panel]) -> str:
    """Speed in parts of the best that anybody measured, after so many trials; the band is one standard deviation."""
    devices, kernels = [each.title for each in DEVICES], [*KERNELS]
    width = LEFT + len(devices) * (WIDTH + GAP)
    height = TOP + len(kernels) * (HEIGHT + GAP) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    x = LEFT
    for way, colour in zip(WAYS, COLOURS, strict=False):
        parts.append(f'<rect x="{x}" y="12" width="18" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 24}" y="18">{escape(way.title)}</text>')
        x += 40 + 8 * len(way.title)
    for n, title in enumerate(devices):
        parts.append(f'<text x="{LEFT + n * (WIDTH + GAP) + WIDTH / 2}" y="50" text-anchor="middle">{title}</text>')
    for n, title in enumerate(kernels):
        y = TOP + n * (HEIGHT + GAP) + HEIGHT / 2
        parts.append(f'<text x="{LEFT - 36}" y="{y}" text-anchor="end">{title}</text>')
    for each in found:
        left = LEFT + devices.index(each.device) * (WIDTH + GAP)
        parts += _panel(each, left, TOP + kernels.index(each.kernel) * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    floor = min(0.95, max(_FLOOR, panel.least / panel.rules - 0.05))
    best = top + _ABOVE

    def place(trial: int, share: float) -> str:
        x = left + WIDTH * trial / TRIALS
        return f"{x:.1f},{best + (top + HEIGHT - best) * (1 - (max(share, floor) - floor) / (1 - floor)):.1f}"

    line = left + WIDTH * WITHIN / TRIALS
    parts = [
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#c0c0c0"/>',
        f'<line x1="{line}" y1="{top}" x2="{line}" y2="{top + HEIGHT}" stroke="#c0c0c0" stroke-dasharray="3"/>',
    ]
    for share, y in ((1.0, best + 3), (floor, top + HEIGHT)):
        parts.append(f'<text x="{left - 4}" y="{y}" text-anchor="end" font-size="9" fill="#606060">{share:.2f}</text>')
    for trial in (0, WITHIN, TRIALS):
        x = left + WIDTH * trial / TRIALS
        text = f'<text x="{x}" y="{top + HEIGHT + 11}" text-anchor="middle" font-size="9" fill="#606060">{trial}</text>'
        parts.append(text)
    for way, colour in zip(WAYS, COLOURS, strict=False):
        curves = panel.curves.get(way.title, [])
        if not curves:
            continue
        means, low, high = [], [], []
        for trial in (n for n in _AT if n <= way.trials):
            shares = [panel.least / at(curve, trial) for curve in curves]
            mean, off = statistics.fmean(shares), statistics.pstdev(shares)
            means.append(place(trial, mean))
            low.append(place(trial, mean - off))
            high.append(place(trial, min(1.0, mean + off)))
        parts.append(f'<polygon points="{" ".join([*high, *reversed(low)])}" fill="{colour}" fill-opacity="0.13"/>')
        parts.append(f'<polyline points="{" ".join(means)}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
    return parts
