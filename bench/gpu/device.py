"""The device that is measured, and the state that it is in."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import parser

import sterna
from sterna.errors import Diagnostic, SternaError, error
from sterna_runtime import devices

#: Targets for CUDA by the compute capability that they need, the newest first.
CAPABILITIES = {90: "cuda-sm90", 80: "cuda-sm80", 75: "cuda-sm75"}
#: By a capability, the target of GPUs that have just that one, and the driver of CUDA that it needs.
ALONE = {90: ("cuda-sm90a", (12, 0))}
TARGETS = ("cuda", *(target for target, _ in ALONE.values()), *CAPABILITIES.values(), "opencl")
#: From which capability on tensor cores multiply TF32.
TF32 = 80


@dataclass(frozen=True)
class Device:
    """What bundles run on.

    Args:
        kind: "cuda" or "opencl"; target: what Sterna compiles for.
        name: what its driver says.
        capability: of CUDA, 90 for 9.0; 0: none.
    """

    kind: str
    target: str
    name: str
    capability: int = 0

    @property
    def is_judged(self) -> bool:
        """The goals are those of NVIDIA's GPUs: on OpenCL, peers compute on the CPU."""
        return self.kind == "cuda"

    @property
    def precisions(self) -> tuple[str, ...]:
        return ("fp32", "tf32", "fp16") if self.capability >= TF32 else ("fp32", "fp16")

    @property
    def slug(self) -> str:
        """For the name of a folder of what is compiled for it."""
        return re.sub(r"\W+", "-", f"{self.target} {self.name}").strip("-").lower()


def find(target: str) -> Device:
    """The device that a target's bundles run on here; "cuda": of the newest target that it can do. What no other GPU
    can do is taken if a product is right by it, since only the emulator of the tests has run it.

    Raises:
        SternaError: E0507, there is none, or it cannot do this.
    """
    kind = target.partition("-")[0]
    try:
        name = devices.describe(kind)
    except SternaError as problem:
        others = "`ci/bench-gpu --target opencl` tries the benchmark on PoCL; `ci/bench-gpu --list` says what would run"
        raise SternaError(
            [
                Diagnostic(d.code, d.title, d.where, f"{d.fix}; {others}" if d.fix else others)
                for d in problem.diagnostics
            ]
        ) from None
    if kind != "cuda":
        return Device(kind, target, name)
    found = re.search(r"capability (\d+)\.(\d+)", name)
    capability = int(found[1] + found[2]) if found else 0
    fitting = [own for least, own in CAPABILITIES.items() if capability >= least]
    own, needed_driver = ALONE.get(capability, ("", (0, 0)))
    driver = re.search(r"CUDA (\d+)\.(\d+)", name)
    if own and driver and (int(driver[1]), int(driver[2])) >= needed_driver:
        if target == own or (target == "cuda" and multiplies(own)):
            return Device(kind, own, name, capability)
        fitting.append(own)
    if not fitting or (target != "cuda" and target not in fitting):
        needed = next((least for least, own in CAPABILITIES.items() if own == target), 75)
        title = f"{name}: {target} needs a compute capability of {needed / 10:.1f}"
        raise error("E0507", title, fix=f"--target {fitting[0]}" if fitting else "another GPU, or --target opencl")
    return Device(kind, fitting[0] if target == "cuda" else target, name, capability)


def multiplies(target: str) -> bool:
    """Whether a product of whole numbers in float16 is right; says so if it is not."""
    shape, random = (1024, 1024), np.random.default_rng(0)
    x, w = (random.integers(-3, 4, shape).astype(np.float16) for _ in range(2))
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> product (float16[1024,1024] x, float16[1024,1024] w) '
        "=> (float16[1024,1024] y) { y = MatMul(x, w) }"
    )
    try:
        with sterna.compile(model, target) as bundle:
            (found,) = bundle.run({"x": x, "w": w}).values()
        wrong = int((found != (x.astype(np.float32) @ w.astype(np.float32)).astype(np.float16)).sum())
    except SternaError as problem:
        print(f"{target} is not measured: {problem}", file=sys.stderr)
        return False
    if wrong:
        print(f"{target} is not measured: {wrong:,} of {found.size:,} elements of a product are wrong", file=sys.stderr)
    return not wrong


# ---------------------------------------------------------------- its state
#: What nvidia-smi calls what is noted. The last one has another name in older drivers.
_QUERIES = {
    "clock_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "state": "pstate",
    "temperature_c": "temperature.gpu",
    "power_w": "power.draw",
    "held_back": "clocks_event_reasons.active",
}
_OLDER = "clocks_throttle_reasons.active"
UNKNOWN = "unknown"
State = dict[str, Any]


def state_of(device: Device) -> State:
    """Clocks, power state, temperature, power, and the bits of what holds clocks back; "unknown" what nobody says."""
    return _of_gpu(device) if device.kind == "cuda" else _of_cpu()


def _of_gpu(device: Device) -> State:
    for last in (_QUERIES["held_back"], _OLDER):
        fields = ["name", *(last if key == "held_back" else field for key, field in _QUERIES.items())]
        command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            break
        if said.returncode == 0:
            return _read(said.stdout, device.name)
    return dict.fromkeys(_QUERIES, UNKNOWN)


def _read(said: str, device: str) -> State:
    """Of nvidia-smi's lines that of the device, by its name; the first one where none has it."""
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines() if line.strip()]
    row = next((row for row in rows if device.startswith(row[0])), rows[0] if rows else [])
    return {key: _number(cell) for key, cell in zip(_QUERIES, [*row[1:], *[""] * len(_QUERIES)], strict=False)}


def _number(cell: str) -> Any:
    if not cell or cell.startswith(("[", "N/A")):
        return UNKNOWN
    try:
        return float(cell)
    except ValueError:
        return cell


def _of_cpu() -> State:
    system = Path("/sys")
    clocks = [*system.glob("devices/system/cpu/cpu*/cpufreq/scaling_cur_freq")]
    mhz = [value / 1e3 for value in map(_value, clocks) if value is not None]
    if not mhz and (info := Path("/proc/cpuinfo")).exists():
        mhz = [float(found) for found in re.findall(r"cpu MHz\s*: ([\d.]+)", info.read_text())]
    heat = [value / 1e3 for value in map(_value, system.glob("class/thermal/thermal_zone*/temp")) if value is not None]
    known = {"clock_mhz": round(max(mhz)) if mhz else UNKNOWN, "temperature_c": max(heat) if heat else UNKNOWN}
    return {key: known.get(key, UNKNOWN) for key in _QUERIES}


def _value(file: Path) -> float | None:
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return None
