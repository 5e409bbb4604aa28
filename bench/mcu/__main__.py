"""Firmware on emulated boards: flash, memory, stack and instructions of an inference, beside other engines.

    ci/bench-mcu                                    # the four networks of MLPerf Tiny, int8, on Cortex-M4 and M55
    ci/bench-mcu --all                              # every small model on every core, compared with the reference
    ci/bench-mcu kws --targets cortex-m4 --builds gcc,zig,llvm --histogram
    ci/bench-mcu --layers conv,add                  # integer layers one by one: instructions for each product

Boards are QEMU's (`sterna.firmware`), which counts: the same every time, instructions and not cycles. --histogram is by
a plugin (bench/mcu/counter.c).
Flash is code and weights, memory is arena, static data and the deepest stack; inputs and outputs are the caller's.
A stack above what the bundle's header says, or below 60 % of it, counts as wrong, as outputs do.
The columns of other engines (integers: TFLM with CMSIS-NN, floats: onnx2c) were measured with the same plugin and rules
(bench/mcu/peers.json says how).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mcu import layers
from mcu.firmware import BUILDS, Found, measure
from sterna.errors import SternaError
from support.boards import TARGETS
from support.trained import FOLDER, agree, trained

PEERS = json.loads((Path(__file__).resolve().parent / "peers.json").read_text())
PROGRAMS = ("qemu-system-arm", "arm-none-eabi-gcc", "gcc")
RISCV = "qemu-system-riscv32"
TINY = {
    "kws": "mlperf_tiny_kws_int8",
    "vww": "mlperf_tiny_vww_int8",
    "ic": "mlperf_tiny_resnet_int8",
    "ad": "mlperf_tiny_ad_int8",
}
#: Models that some board has room for.
SMALL = (
    *TINY.values(), "tflm_hello_world_int8", "tflm_hello_world_f32", "tflm_micro_speech_int8", "tflm_mnist_lstm_int8",
    "tflm_mnist_lstm_f32", "tflm_person_detect_int8", "micro_wakeword_okay_nabu_int8", "mlperf_tiny_ad_f32",
    "mlperf_tiny_kws_hybrid", "mlperf_tiny_resnet_f32", "mlperf_tiny_vww_f32", "torch_digits_cnn", "mnist_cntk_f32",
    "lightgbm_wine", "sklearn_logreg_digits", "sklearn_mlp_digits", "sklearn_rf_digits", "sklearn_svc_wine",
    "xgboost_breast_cancer_nan", "xgboost_digits",
)  # fmt: skip


def one(model: str, target: str, build: str, optimize: str, by_mnemonic: bool) -> tuple[Found | None, str]:
    """What was measured, and what is wrong with it."""
    found = None
    with tempfile.TemporaryDirectory(prefix="sterna-mcu-") as folder:
        try:
            found = measure(trained(model), target, build, Path(folder), optimize, by_mnemonic)
            outputs = zip(found.measured.outputs, trained(model).cases[0].outputs, strict=True)
            agree(trained(model), 0, [array.reshape(like.shape) for array, like in outputs])
        except SternaError as problem:
            lines = (line.strip() for line in str(problem).splitlines() if line.strip())
            return None, " ".join(lines)[:300]
        except AssertionError:
            return found, "outputs differ from the reference"
    return found, "" if found.stack_is_as_said else f"the header says {found.said:,} bytes of stack"


def rows(models: Sequence[str], targets: Sequence[str], builds: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    return ((m, t, b) for t in targets for m in models for b in builds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="names of models, or kws, vww, ic, ad; without any, these four")
    parser.add_argument("--targets", default="cortex-m4,cortex-m55", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--builds", default="zig", help=f"of {', '.join(BUILDS)}")
    parser.add_argument("--optimize", default="-O2", help="gcc's level for the bundle's sources")
    parser.add_argument("--all", action="store_true", help="every small model on every core")
    parser.add_argument("--histogram", action="store_true", help="the ten commonest instructions of each")
    parser.add_argument("--layers", nargs="?", const="", help="layers whose names contain one of these words, or all")
    asked = parser.parse_args()
    models = [TINY.get(m, m) for m in asked.models] or list(SMALL if asked.all else TINY.values())
    targets = list(TARGETS) if asked.all else asked.targets.split(",")
    for what, given, known in (("target", targets, TARGETS), ("build", asked.builds.split(","), BUILDS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"no {what} {unknown[0]}: one of {', '.join(known)}")
    if unknown := [m for m in models if not (FOLDER / m).is_dir()]:
        parser.error(f"no model {unknown[0]} in {FOLDER}")
    riscv = [RISCV] if any("riscv" in target for target in targets) else []
    if missing := [tool for tool in (*PROGRAMS, *riscv) if shutil.which(tool) is None]:
        parser.error(f"needs {', '.join(missing)}, whose packages ci/test names")
    if asked.layers is not None:
        return int(layers.table(asked.layers.split(","), targets, asked.builds.split(",")[0]) > 0)
    console = Console(width=150)
    table = Table(
        "model", "core", "by", "code", "flash", "RAM", "stack", "M instr", "peer: code", "flash", "RAM", "M instr", ""
    )
    wrong = 0
    for model, target, build in rows(models, targets, asked.builds.split(",")):
        found, problem = one(model, target, build, asked.optimize, asked.histogram)
        wrong += bool(problem) and "E0405" not in problem
        own = ["", "", "", "", ""]
        if found is not None:
            taken = found.measured
            sizes = (taken.code, taken.flash, taken.memory, taken.stack)
            own = [*(f"{n:,}" for n in sizes), f"{taken.instructions / 1e6:.3f}"]
        peers = (PEERS[name].get(target, {}).get(model) for name in ("tflm", "onnx2c"))
        peer = next((each for each in peers if each), {})
        theirs = [f"{peer[k]:,}" if k in peer else "" for k in ("code", "flash", "ram", "instructions_m")]
        table.add_row(model, target, build, *own, *theirs, problem)
        print(" ".join((model, target, build, *own, problem)), flush=True)
        if found is not None and found.by_mnemonic:
            common = sorted(found.by_mnemonic.items(), key=lambda each: -each[1])[:10]
            print("  " + ", ".join(f"{m} {n:,}" for m, n in common), flush=True)
    console.print(table)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
