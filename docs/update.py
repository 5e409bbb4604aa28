"""Fills in the generated parts of docs/architecture.md: what every stage of the compiler prints for the digits network.

    python docs/update.py            # rewrites the file
    python docs/update.py --check    # fails if it is not up to date

A generated part stands between `<!-- stage NAME -->` and `<!-- end -->`; `NAME first..last` keeps only those lines.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sterna.api import compile_model

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
MODEL = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
PART = re.compile(r"(<!-- stage ([\w-]+)(?: (\d+)\.\.(\d+))? -->\n).*?(<!-- end -->)", re.S)


def stages() -> dict[str, str]:
    """What each stage prints; for a fixed target, so that the page does not depend on the machine."""
    printed: dict[str, str] = {}
    compile_model(str(MODEL), target="x86-64-v3", observe=printed.__setitem__)
    return printed


def filled(page: str, printed: dict[str, str]) -> str:
    """The page with its generated parts written anew."""

    def part(match: re.Match[str]) -> str:
        lines = printed[match[2]].rstrip("\n").split("\n")
        if match[3]:
            first, last = int(match[3]), int(match[4])
            rest = len(lines) - last
            lines = lines[first - 1 : last] + ([f"... {rest} more lines"] if rest > 0 else [])
        body = "\n".join(line if len(line) <= 150 else line[:147] + "..." for line in lines)
        return f"{match[1]}```\n{body}\n```\n{match[5]}"

    return PART.sub(part, page)


def main() -> int:
    page = PAGE.read_text("utf-8")
    new = filled(page, stages())
    if "--check" in sys.argv[1:]:
        if new != page:
            print("docs/architecture.md is not up to date: run python docs/update.py", file=sys.stderr)
        return int(new != page)
    PAGE.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
