"""Writes what `torch_export.py` exported to ONNX, by PyTorch's own exporter, of the same programs.

python bench/torch_onnx.py FOLDER [NAME ...]
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

import torch


def main() -> int:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    folder, chosen = Path(sys.argv[1]), set(sys.argv[2:])
    for file in sorted(folder.glob("*.pt2")):
        target = file.with_suffix(".onnx")
        if target.exists() or (chosen and file.stem not in chosen):
            continue
        try:
            known(file.stem)
            program = torch.export.load(file)
            torch.onnx.export(program, f=str(target), dynamo=True, external_data=False, verbose=False)
            print("wrote", target.name, flush=True)
        except Exception as problem:  # the exporter has no common type of errors; a model that it refuses has no peer
            text = (str(problem).strip().splitlines() or [""])[0]
            print(f"{target.name}: not written: {type(problem).__name__}: {text[:200]}", flush=True)
    return 0


def known(name: str) -> None:
    """Imports what a program's file names: operators and types of results that transformers registers."""
    library, _, own = name.partition("_")
    if library != "hf":
        return
    own = {"deberta": "deberta_v2"}.get(own, own)
    for module in ("modeling_outputs", "integrations.moe", f"models.{own}.modeling_{own}"):
        importlib.import_module(f"transformers.{module}")


if __name__ == "__main__":
    sys.exit(main())
