"""Reports of ten models, used in Chromium as people use them, and a graph of 1,500 nodes.

    ci/report                     # everything; it takes some minutes
    ci/report --only lstm,int8
    ci/report --shots build/report    # keeps the pages and pictures of them

Of each: every tab is opened at three widths, nodes are clicked, tables sorted and filtered, axe-core looks for serious
faults, and the numbers of the page are those of `sterna inspect --json`. The large graph must stand within 2 s and move
at 30 frames a second. It ends with 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from click.testing import CliRunner

from sterna.cli import program
from support.control_flow import detector
from support.reports import in_chromium, large_report
from support.trained import sample

MOST_SECONDS, LEAST_FRAMES, NODES = 2.0, 30.0, 1500


@dataclass(frozen=True)
class Subject:
    """What is reported on.

    Args:
        model: of the development models, or `detector` of the tests, which has a loop and a choice.
        options: of its compilation; report: further ones of the report.
        open: whether its sizes stay open, by these options.
    """

    model: str
    options: tuple[str, ...] = ()
    report: tuple[str, ...] = ("--time", "--repeat", "5")
    open: tuple[str, ...] = ()


SUBJECTS = {
    "cnn": Subject("mlperf_tiny_resnet_f32"),
    "encoder": Subject("g2p_id_bert_f32"),
    "lstm": Subject("tflm_mnist_lstm_f32"),
    "speech": Subject("silero_vad_16k_f32"),
    "control": Subject("detector"),
    "boxes": Subject("ssd_mobilenet_v1_coco_u8"),
    "int8": Subject("mlperf_tiny_kws_int8"),
    "forest": Subject("xgboost_digits"),
    "open": Subject("torch_digits_cnn", open=("--dim", "batch=1..8")),
    "firmware": Subject("mlperf_tiny_kws_int8", ("--target", "cortex-m4"), ()),
}


def sterna(*arguments: object) -> str:
    """What a command prints. Raises RuntimeError where it fails."""
    done = CliRunner().invoke(program, [str(a) for a in arguments])
    if done.exit_code != 0:
        raise RuntimeError(f"sterna {' '.join(map(str, arguments))}\n{done.output}")
    return done.stdout


def tried(name: str, subject: Subject, place: Path) -> list[str]:
    """What is wrong with the report of a model."""
    bundle, page, samples = place / f"{name}-bundle", place / f"{name}.html", place / f"{name}.npz"
    if subject.model == "detector":
        file = _detector(place, samples)
        sizes = []
    else:
        model = sample(subject.model)
        file, sizes = model.file, list(subject.open)
        if not sizes:
            for key, shape in model.shapes().items():
                sizes += ["--shape", f"{key}={','.join(map(str, shape))}"]
        np.savez(samples, **{f"{key}.0": array for key, array in model.cases[0].inputs.items()})
    own = [file, "--generator", "llvm", *sizes, *subject.options]
    sterna("compile", *own, "-o", bundle)
    numbers = () if "--target" in subject.options else ("--data", samples)
    sterna("report", *own, *subject.report, *numbers, "-o", page)
    known, data = (json.loads(sterna(*words, "--json")) for words in (("inspect", bundle), ("report", bundle)))
    shown = in_chromium("tour", place, page)[name]
    return _compared(known, data["subjects"][0], shown)


def _detector(place: Path, samples: Path) -> Path:
    """A model with a loop and a choice that the data decide; writes what it is tried on, too."""
    file = place / "detector.onnx"
    onnx.save(detector(), file)
    image = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    np.savez(samples, image=image, least=np.array([0.55], np.float32))
    return file


def _compared(known: dict[str, Any], subject: dict[str, Any], shown: dict[str, Any]) -> list[str]:
    wanted = {"size": known["bytes"], "nodes": len(subject["nodes"])}
    if (totals := known["totals"]) is not None:
        wanted |= {"nodes": totals["nodes"], "arena": totals["arena_bytes"], "multiply-adds": totals["multiply_adds"]}
        if subject["totals"] != totals:
            return [f"totals are {subject['totals']}, and {totals} of inspect"]
    facts = shown["facts"]
    texts = {key: (f"{n:,}", f"{n:,} B", f"{n / 1e3:.1f} kB", f"{n / 1e6:.1f} MB") for key, n in wanted.items()}
    wrong = [f"{key} is {facts[key]}, not {wanted[key]:,}" for key in wanted if facts[key] not in texts[key]]
    for number, text in shown["nodes"].items():
        node = subject["nodes"][int(number)]
        plain = (source for source in node["sources"] if source.isprintable())
        wrong += [f"node {number} lacks {source}" for source in plain if source not in text]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SUBJECTS), metavar="NAME,...", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--shots", type=Path, metavar="FOLDER", help="where pages and pictures are kept")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        place = arguments.shots or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        for name in arguments.only.split(","):
            try:
                wrong = tried(name, SUBJECTS[name], place.resolve())
            except (RuntimeError, AssertionError) as problem:
                wrong = [str(problem)]
            failed = failed or bool(wrong)
            print(f"{name:10} {SUBJECTS[name].model:28} {'; '.join(wrong) or 'as it should be'}", flush=True)
        speed = in_chromium("speed", large_report(place.resolve() / "large.html", NODES))
        slow = speed["seconds"] > MOST_SECONDS or min(speed["near"], speed["whole"]) < LEAST_FRAMES
        print(f"{NODES} nodes: open in {speed['seconds']:.2f} s, {speed['near']:.0f} frames a second near, "
              f"{speed['whole']:.0f} as a whole{': too slow' if slow else ''}")  # fmt: skip
    return int(failed or slow)


if __name__ == "__main__":
    sys.exit(main())
