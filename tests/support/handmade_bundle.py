"""A tiny bundle made by hand: C kernels compiled by zig cc, and a graph.json written here, not by the compiler.

It computes, for `x` of shape (4, 6) and its weights w (6,):

    scaled = x * w                  one task per row; stored in the middle of a padded buffer
    total  = sum(scaled, axis=1)    one task; `tasks` is 1, so it never leaves the calling thread
    y      = scaled + mean(total)   two phases with a barrier between them

so that the runtime's tests see strided storage, parameters, scratch, tasks and barriers. Everything can be overridden
to make a bundle that is wrong in one way.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import platform
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "runtime_c" / "include"
ROWS, COLUMNS, PADDED = 4, 6, 10
WEIGHTS = np.arange(1, COLUMNS + 1, dtype=np.float32)

FLAGS = ["-std=c99", "-O2", "-g0", "-fPIC", "-shared", "-nostdlib", "-ffreestanding", "-fvisibility=hidden"]
FLAGS += ["-fno-sanitize=all"]

KERNELS_C = r"""
#include "sterna_kernel.h"

#define ROWS 4
#define COLUMNS 6
#define PADDED 10
#define ORIGIN (PADDED + 2)

static int32_t scale(const sterna_call *call, uint32_t first, uint32_t last) {
  const float *x = call->in[0], *w = (const float *)(const void *)call->params;
  float *scaled = call->out[0];
  for (uint32_t row = first; row < last; row++)
    for (uint32_t i = 0; i < COLUMNS; i++) scaled[ORIGIN + row * PADDED + i] = x[row * COLUMNS + i] * w[i];
  return 0;
}

static int32_t total(const sterna_call *call, uint32_t first, uint32_t last) {
  const float *scaled = call->in[0];
  float *out = call->out[0], *partial = (float *)(void *)call->scratch;
  (void)first, (void)last;
  for (uint32_t row = 0; row < ROWS; row++) {
    partial[row] = 0.0f;
    for (uint32_t i = 0; i < COLUMNS; i++) partial[row] += scaled[ORIGIN + row * PADDED + i];
    out[row] = partial[row];
  }
  return call->scratch == 0 ? -1 : 0;
}

/* Phase one copies; phase two, after the barrier, reads rows that another worker may have copied. */
static int32_t shift(const sterna_call *call, uint32_t first, uint32_t last) {
  const float *scaled = call->in[0], *sums = call->in[1];
  float *y = call->out[0];
  float mean = (sums[0] + sums[1] + sums[2] + sums[3]) / ROWS;
  for (uint32_t task = first; task < last; task++) {
    uint32_t row = ROWS - 1 - task;
    for (uint32_t i = 0; i < COLUMNS; i++) y[row * COLUMNS + i] = scaled[ORIGIN + row * PADDED + i];
  }
  call->barrier(call->pool);
  for (uint32_t row = first; row < last; row++)
    for (uint32_t i = 0; i < COLUMNS; i++) y[row * COLUMNS + i] += mean;
  return 0;
}

static int32_t failing(const sterna_call *call, uint32_t first, uint32_t last) {
  (void)call, (void)first, (void)last;
  return -11;
}

static const sterna_kernel kernels[] = {
    {scale, ROWS, 0, 0, 0}, {total, 1, 64, 0, 0}, {shift, ROWS, 0, STERNA_KERNEL_NEEDS_BARRIER, 0},
    {failing, 1, 0, 0, 0}};
static const sterna_library library = {sizeof library, STERNA_ABI, 4, 0, kernels, ""};

__attribute__((visibility("default"))) const sterna_library *sterna_handmade_library(void);
const sterna_library *sterna_handmade_library(void) { return &library; }
"""

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & _MASK


def _mix(lane: int, data: int) -> int:
    return _rotate((lane + data * _P2) & _MASK, 31) * _P1 & _MASK


def xxh64(data: bytes) -> str:
    """XXH64 with seed 0 after its specification: the reference that the C one is compared with."""
    at = 0
    result = _P5
    if len(data) >= 32:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while len(data) - at >= 32:
            lanes = [_mix(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
            at += 32
        result = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            result = ((result ^ _mix(0, lane)) * _P1 + _P4) & _MASK
    result = (result + len(data)) & _MASK
    while len(data) - at >= 8:
        result = (_rotate(result ^ _mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * _P1 + _P4) & _MASK
        at += 8
    if len(data) - at >= 4:
        result = (_rotate(result ^ (struct.unpack_from("<I", data, at)[0] * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        result = _rotate(result ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    result = (result ^ result >> 33) * _P2 & _MASK
    result = (result ^ result >> 29) * _P3 & _MASK
    return f"{result ^ result >> 32:016x}"


def expected(x: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    """What the bundle computes, every tensor by name."""
    scaled = x * WEIGHTS
    total = scaled.sum(axis=1, dtype=np.float32)
    mean = np.float32((total[0] + total[1] + total[2] + total[3]) / np.float32(ROWS))
    return {"x": x, "w": WEIGHTS, "scaled": scaled, "total": total, "y": scaled + mean}


def graph(params: bytes, library: bytes, library_name: str = "model.so") -> dict[str, Any]:
    """graph.json without its first line, as an object that a test may spoil."""
    dense = {"offset": 0, "bytes": ROWS * COLUMNS * 4, "origin": 0, "strides": [COLUMNS, 1]}
    machine = platform.machine().lower()
    return {
        "abi": 1,
        "producer": "by hand",
        "model": "handmade",
        "target": {
            "name": "host",
            "triple": {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine) + "-none",
            "pointer_bits": struct.calcsize("P") * 8,
            "cpu_features": [],
        },
        "options": {},
        "files": {
            "params.bin": {"bytes": len(params), "hash": xxh64(params)},
            library_name: {"bytes": len(library), "hash": xxh64(library)},
        },
        "library": library_name,
        "arena": {"bytes": 320, "live_bytes": 256},
        "scratch_bytes": 64,
        "kernels": [{"name": name, "hash": ""} for name in ("scale", "total", "shift", "failing")],
        "values": [
            {"name": "x", "dtype": "float32", "dims": [ROWS, COLUMNS], "storage": {"class": "input", **dense}},
            {
                "name": "w",
                "dtype": "float32",
                "dims": [COLUMNS],
                "storage": {"class": "param", "offset": 64, "bytes": 24, "origin": 0, "strides": [1]},
            },
            {
                "name": "scaled",
                "dtype": "float32",
                "dims": [ROWS, COLUMNS],
                "storage": {"class": "arena", "offset": 0, "bytes": 240, "origin": PADDED + 2, "strides": [PADDED, 1]},
            },
            {
                "name": "total",
                "dtype": "float32",
                "dims": [ROWS],
                "storage": {"class": "arena", "offset": 256, "bytes": 16, "origin": 0, "strides": [1]},
            },
            {
                "name": "gone",
                "dtype": "float32",
                "dims": [ROWS],
                "storage": {"class": "arena", "offset": 256, "bytes": 16, "origin": 0, "strides": [1]},
                "fleeting": True,
            },
            {"name": "y", "dtype": "float32", "dims": [ROWS, COLUMNS], "storage": {"class": "output", **dense}},
        ],
        "inputs": [0],
        "outputs": [5],
        "nodes": [
            {
                "name": "scale",
                "kernel": 0,
                "in": [0],
                "out": [2],
                "params_at": 64,
                "params_bytes": 24,
                "tasks": ROWS,
                "sources": ["Mul_0"],
            },
            {"name": "total", "kernel": 1, "in": [2], "out": [3], "params_at": 0, "params_bytes": 0, "tasks": 1},
            {"name": "shift", "kernel": 2, "in": [2, 3], "out": [5], "params_at": 0, "params_bytes": 0, "tasks": ROWS},
        ],
    }


def graph_text(members: dict[str, Any] | bytes, version: int = 1) -> bytes:
    """graph.json with its first line and a hash that is right for what follows."""
    if isinstance(members, bytes):
        rest = members
    else:
        rest = json.dumps(members, indent=1).encode()[1:].lstrip()
    return f'{{"sterna":{version},"hash":"{xxh64(rest)}",\n'.encode() + rest


def params() -> bytes:
    return bytes(64) + WEIGHTS.tobytes() + bytes(40)


def compile_c(source: str, output: Path, *flags: str) -> None:
    """Compiles a freestanding library with zig cc; `flags` come last."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "kernels.c"
        path.write_text(source)
        subprocess.run(
            [sys.executable, "-m", "ziglang", "cc", *FLAGS, f"-I{INCLUDE}", str(path), "-o", str(output), *flags],
            check=True,
            capture_output=True,
            text=True,
        )


def kernel_library(*flags: str) -> bytes:
    """The compiled kernels, made once per content and kept in the temporary directory of this user."""
    key = hashlib.sha256(repr((KERNELS_C, flags, (INCLUDE / "sterna_kernel.h").read_text())).encode()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"sterna-test-{os.getuid() if hasattr(os, 'getuid') else 0}" / f"{key}.so"
    if not kept.exists():
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        compile_c(KERNELS_C, fresh, *flags)
        fresh.replace(kept)
    return kept.read_bytes()


def write(directory: Path, members: dict[str, Any] | None = None, flags: tuple[str, ...] = ()) -> Path:
    """Writes the bundle, or one with other members; hashes of files are right unless `members` says otherwise."""
    library = kernel_library(*flags)
    directory.mkdir(parents=True, exist_ok=True)
    spoiled = copy.deepcopy(members) if members is not None else graph(params(), library)
    (directory / "params.bin").write_bytes(params())
    (directory / "model.so").write_bytes(library)
    (directory / "graph.json").write_bytes(graph_text(spoiled))
    return directory
