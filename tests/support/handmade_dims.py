"""A tiny bundle made by hand whose sizes are open until it runs: `batch` from 1 to 3 and `seq` from 1 to 16.

It computes, for `x` of shape (batch, seq) and `pairs` of shape ((seq + 1) // 2,):

    mid  = x + repeat(pairs, 2)[:seq]       one task per row; stored strided: rows of seq + 2, from element 1
    y    = [mid, reversed mid, row sums]    one task; of shape (batch, 2*seq + 1)
    tail = mid[0, 4:]                       of shape (max(seq - 4, 0),), without elements where seq <= 4; blocks of 5
"""

from __future__ import annotations

import hashlib
import os
import platform
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from support import handmade_bundle

BATCH, SEQ = 3, 16

KERNELS_C = r"""
#include "sterna_kernel.h"

static int32_t shift(const sterna_call *call, uint32_t first, uint32_t last) {
  const float *x = call->in[0], *pairs = call->in[1];
  float *mid = call->out[0];
  int64_t seq = call->dims[1];
  for (int64_t b = first; b < (int64_t)last; b++)
    for (int64_t i = 0; i < seq; i++) mid[1 + b * (seq + 2) + i] = x[b * seq + i] + pairs[i / 2];
  return 0;
}

static int32_t join(const sterna_call *call, uint32_t first, uint32_t last) {
  const float *mid = call->in[0];
  float *y = call->out[0];
  int64_t batch = call->dims[0], seq = call->dims[1];
  (void)first, (void)last;
  for (int64_t b = 0; b < batch; b++) {
    const float *from = mid + 1 + b * (seq + 2);
    float *to = y + b * (2 * seq + 1), sum = 0.0f;
    for (int64_t i = 0; i < seq; i++) {
      to[i] = from[i];
      to[seq + i] = from[seq - 1 - i];
      sum += from[i];
    }
    to[2 * seq] = sum;
  }
  return 0;
}

static int32_t tail(const sterna_call *call, uint32_t first, uint32_t last) {
  const float *mid = call->in[0];
  float *out = call->out[0];
  int64_t n = call->dims[1] - 4;
  if (first >= last) return -1; /* nobody calls it without tasks */
  for (int64_t i = 5 * (int64_t)first; i < 5 * (int64_t)last && i < n; i++) out[i] = mid[1 + 4 + i];
  return 0;
}

static const sterna_kernel kernels[] = {{shift, 3, 0, 0, 0}, {join, 1, 0, 0, 0}, {tail, 3, 0, 0, 0}};
static const sterna_library library = {sizeof library, STERNA_ABI, 3, 0, kernels, ""};

__attribute__((visibility("default"))) const sterna_library *sterna_open_library(void);
const sterna_library *sterna_open_library(void) { return &library; }
"""


def expected(x: npt.NDArray[np.float32], pairs: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    """What the bundle computes, every tensor by name."""
    mid = x + np.repeat(pairs, 2)[: x.shape[1]]
    sums = mid.cumsum(axis=1, dtype=np.float32)[:, -1:]
    y = np.concatenate([mid, mid[:, ::-1], sums], axis=1)
    return {"x": x, "pairs": pairs, "mid": mid, "y": y, "tail": mid[0, 4:]}


def inputs(batch: int, seq: int, seed: int = 1) -> dict[str, npt.NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    return {
        "x": generator.random((batch, seq), np.float32),
        "pairs": generator.random((seq + 1) // 2, np.float32),
    }


def graph(library: bytes) -> dict[str, Any]:
    """graph.json without its first line, as an object that a test may spoil."""
    batch, seq = ["d", 0], ["d", 1]
    machine = platform.machine().lower()

    def value(name: str, kind: str, dims: list[Any], strides: list[Any], size: int, **storage: Any) -> dict[str, Any]:
        place = {"class": kind, "offset": 0, "bytes": size * 4, "origin": 0, "strides": strides}
        return {"name": name, "dtype": "float32", "dims": dims, "storage": {**place, **storage}}

    wide = ["+", ["*", 2, seq], 1]
    rest = ["max", ["+", seq, -4], 0]
    return {
        "abi": 1,
        "producer": "by hand",
        "model": "open",
        "target": {
            "name": "host",
            "triple": {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine) + "-none",
            "pointer_bits": struct.calcsize("P") * 8,
            "cpu_features": [],
        },
        "options": {},
        "files": {
            "params.bin": {"bytes": 0, "hash": handmade_bundle.xxh64(b"")},
            "model.so": {"bytes": len(library), "hash": handmade_bundle.xxh64(library)},
        },
        "library": "model.so",
        "arena": {"bytes": 256, "live_bytes": 256},
        "scratch_bytes": 0,
        "kernels": [{"name": name} for name in ("shift", "join", "tail")],
        "symbols": [{"name": "batch", "lo": 1, "hi": BATCH}, {"name": "seq", "lo": 1, "hi": SEQ}],
        "values": [
            value("x", "input", [batch, seq], [seq, 1], BATCH * SEQ),
            value("pairs", "input", [["/", ["+", seq, 1], 2]], [1], SEQ // 2),
            value("mid", "arena", [batch, seq], [["+", seq, 2], 1], BATCH * (SEQ + 2), origin=1),
            value("y", "output", [batch, wide], [wide, 1], BATCH * (2 * SEQ + 1)),
            value("tail", "output", [rest], [1], SEQ - 4),
        ],
        "inputs": [0, 1],
        "outputs": [3, 4],
        "nodes": [
            {"name": "shift", "kernel": 0, "in": [0, 1], "out": [2], "tasks": batch, "sources": ["Add_0"]},
            {"name": "join", "kernel": 1, "in": [2], "out": [3], "tasks": 1},
            {"name": "tail", "kernel": 2, "in": [2], "out": [4], "tasks": ["/", ["+", rest, 4], 5]},
        ],
    }


def kernel_library() -> bytes:
    """The compiled kernels, made once per content and kept in the temporary directory of this user."""
    header = (handmade_bundle.INCLUDE / "sterna_kernel.h").read_text()
    key = hashlib.sha256(repr((KERNELS_C, header)).encode()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"sterna-test-{os.getuid() if hasattr(os, 'getuid') else 0}" / f"{key}.so"
    if not kept.exists():
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        handmade_bundle.compile_c(KERNELS_C, fresh)
        fresh.replace(kept)
    return kept.read_bytes()


def write(directory: Path, members: dict[str, Any] | None = None) -> Path:
    """Writes the bundle, or one with other members; hashes of files are right unless `members` says otherwise."""
    library = kernel_library()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "params.bin").write_bytes(b"")
    (directory / "model.so").write_bytes(library)
    text = handmade_bundle.graph_text(members if members is not None else graph(library))
    (directory / "graph.json").write_bytes(text)
    return directory
