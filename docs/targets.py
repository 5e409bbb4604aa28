"""Writes the table of processors of ARM and RISC-V in docs/targets.md from their descriptions.

python docs/targets.py            # rewrites the page
python docs/targets.py --check    # fails if it is not up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sterna.targets.description import load_target, target_names
from sterna.targets.target import Target

PAGE = Path(__file__).resolve().parent / "targets.md"
PART = re.compile(r"(<!-- processors of ARM and RISC-V -->\n).*?(<!-- end -->)", re.S)
HEAD = (
    "| target | machine | features | L1, L2 of a core | vectors multiplied, loaded in a cycle |\n"
    "| --- | --- | --- | --- | --- |\n"
)


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


def _row(target: Target) -> str:
    features = ", ".join(target.cpu_features)
    rates = f"{target.rate:g}, {target.loads_per_cycle:g}" if target.vector_bits else "no vectors"
    caches = f"{_size(target.l1_bytes)}, {_size(target.l2_bytes)}"
    return f"| `{target.name}` | {target.description} | {features} | {caches} | {rates} |\n"


def table() -> str:
    targets = [load_target(name) for name in target_names() if name != "host"]
    return HEAD + "".join(_row(t) for t in targets if t.llvm_triple.startswith(("aarch64", "arm", "riscv")))


def main() -> int:
    page = PAGE.read_text("utf-8")
    new = PART.sub(lambda found: found[1] + table() + found[2], page)
    if "--check" in sys.argv[1:]:
        if new != page:
            print("docs/targets.md is not up to date: run python docs/targets.py", file=sys.stderr)
        return int(new != page)
    PAGE.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
