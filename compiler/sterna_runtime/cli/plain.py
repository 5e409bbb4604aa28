"""What commands print without the compiler's libraries: lines, aligned columns, JSON, errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from sterna_runtime.errors import SternaError
from sterna_runtime.escape import json_text, terminal, terminal_lines


def echo(text: str = "") -> None:
    """Lines, of which parts may be names of a model."""
    print(terminal_lines(text))


def print_json(data: Any) -> None:
    print(json_text(data, indent=2))


def print_errors(mistake: SternaError) -> None:
    """The diagnostics, on standard error."""
    print("\n\n".join(diagnostic.text("cli") for diagnostic in mistake.diagnostics), file=sys.stderr)


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows of cells as lines with aligned columns; `right`: the columns that are aligned to the right."""
    shown = [[terminal(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    )
