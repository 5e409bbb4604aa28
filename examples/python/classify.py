"""Compiles a model and runs it on images: python classify.py MODEL.onnx IMAGE.npy [IMAGE.npy ...]

From the repository's root:

    python examples/python/classify.py compiler/sterna/demo/digits.onnx compiler/sterna/demo/images/*.npy
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sterna


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    model, *images = map(Path, sys.argv[1:])
    try:
        with sterna.compile(model) as bundle:
            for path in images:
                (scores,) = bundle.run([np.load(path)]).values()
                best = scores.reshape(-1).argsort()[::-1][:3]
                print(path.name, ", ".join(f"{n}: {scores.reshape(-1)[n]:.1%}" for n in best))
    except sterna.SternaError as mistake:
        raise SystemExit(str(mistake)) from None


if __name__ == "__main__":
    main()
