"""MISRA C:2012 over the C of firmware bundles: every rule that is not kept is in the table of docs/misra.md.

ci/misra                                  # models of 8 and of 32 bits
ci/misra mlperf_tiny_kws_int8 --target cortex-m0plus
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from sterna.api import compile_to
from support.trained import trained

PAGE = Path(__file__).resolve().parent.parent / "docs" / "misra.md"
MODELS = ("tflm_hello_world_int8", "tflm_hello_world_f32", "micro_wakeword_okay_nabu_int8")
OPTIONS = ("--addon=misra", "--std=c99", "--enable=style", "-q", "--suppress=missingIncludeSystem")


def found(model: str, target: str) -> Counter[str]:
    """How often each rule is not kept."""
    given = trained(model)
    with tempfile.TemporaryDirectory(prefix="sterna-misra-") as folder:
        bundle = compile_to(Path(folder) / "bundle", given.file, target, shapes=given.shapes(), generator="llvm")
        command = ["cppcheck", *OPTIONS, f"-I{bundle}", bundle / "model.c", bundle / "kernels.c", bundle / "params.c"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return Counter(re.findall(r"\[misra-c2012-([\d.]+)\]$", said, re.M))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--target", default="cortex-m4")
    asked = parser.parse_args()
    if shutil.which("cppcheck") is None:
        parser.error("needs cppcheck")
    listed = set(re.findall(r"^\| (\d+\.\d+) \|", PAGE.read_text(), re.M))
    beyond: set[str] = set()
    for model in asked.models:
        rules = found(model, asked.target)
        beyond |= set(rules) - listed
        print(f"{model}: {', '.join(f'{rule} ({n})' for rule, n in sorted(rules.items())) or 'nothing'}", flush=True)
    if beyond:
        print(f"rules that docs/misra.md does not name: {', '.join(sorted(beyond))}", file=sys.stderr)
    return int(bool(beyond))


if __name__ == "__main__":
    sys.exit(main())
