"""What is wanted of Sterna on NVIDIA's GPUs, and whether a run reached it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu.bench import FIRST
from gpu.kernels import MEMORY, PRODUCT
from gpu.results import Results, mean

#: A rival may have several engines: what counts is the fastest of them.
ONNXRUNTIME, TORCH = ("onnxruntime-gpu", "onnxruntime"), ("torch-compile",)
TENSORRT = ("tensorrt", "tensorrt-graph")
CUBLAS = "torch-eager"
#: The network whose start is timed, and one of a single node: what opening a device takes.
START, NOTHING = "mobilenet_v2", "null"


@dataclass(frozen=True)
class Goal:
    """One of them.

    Args:
        wanted: at least, or `most`: at most; found: None, it was not measured.
        of: what was counted.
    """

    name: str
    wanted: float
    found: float | None
    of: str = ""
    unit: str = ""
    most: bool = False

    @property
    def is_met(self) -> bool | None:
        if self.found is None:
            return None
        return self.found <= self.wanted if self.most else self.found >= self.wanted


def goals(results: Results) -> list[Goal]:
    return [*_latencies(results), *_kernels(results), *_start(results)]


def _latencies(results: Results) -> Iterator[Goal]:
    for precision in dict.fromkeys(row.precision for row in results.networks):
        for peer, wanted, rivals in (("onnxruntime", 1.3, ONNXRUNTIME), ("torch.compile", 1.0, TORCH)):
            title = f"{precision}, batch 1: times as fast as {peer}"
            yield _of_ratios(title, wanted, results.ratios(precision, rivals, batch=1))
    if any(row.precision == "fp16" for row in results.networks):
        yield _of_ratios("fp16, all batches: times as fast as TensorRT", 0.8, results.ratios("fp16", TENSORRT))


def _of_ratios(title: str, wanted: float, ratios: Sequence[float]) -> Goal:
    found, of = (mean(ratios), f"geometric mean of {len(ratios)}, least {min(ratios):.2f}") if ratios else (None, "")
    return Goal(title, wanted, found, of)


def _kernels(results: Results) -> Iterator[Goal]:
    kernels = {row.network for row in results.kernels}
    if PRODUCT in kernels:
        own, cublas = results.rate(PRODUCT, "sterna-device"), results.rate(PRODUCT, CUBLAS)
        share = 100 * own / cublas if own is not None and cublas is not None else None
        yield Goal("fp16 product: of cuBLAS's rate", 70, share, unit=" %")
    if kernels & {*MEMORY}:
        found = {name: share for name in MEMORY if (share := results.share_of_copy(name)) is not None}
        least = min(found, key=lambda name: found[name], default=None)
        share = None if least is None else 100 * found[least]
        yield Goal("kernels that move memory: of a copy's rate", 90, share, f"the least of {len(found)}, {least}", " %")


def _start(results: Results) -> Iterator[Goal]:
    if START in results.starts:
        took = results.starts[START].get("first_ms")
        nothing = results.starts.get(NOTHING, {}).get("first_ms")
        alone = results.starts[START].get("alone_ms")
        of = f"median of {len(results.starts[START].get('samples', ()))}, device open"
        of += "" if alone is None else f"; {alone:.0f} ms with opening it"
        of += "" if nothing is None else f"; {nothing:.0f} ms of a network of one node"
        yield Goal(f"{START}: load to the first result", 100, took, of, " ms", most=True)
    sizes = dict(bundles(results))
    if sizes:
        largest = max(sizes, key=lambda label: sizes[label])
        of = f"the largest of {len(sizes)}, {largest}"
        yield Goal("bundle without weights", 400, sizes[largest], of, " KB", most=True)


def bundles(results: Results) -> Iterator[tuple[str, float]]:
    """Of networks, kilobytes without weights."""
    for row in results.networks:
        files = row.records.get(FIRST, row.records.get("sterna-device", {})).get("compile", {}).get("files")
        if files:
            yield row.label, sum(size for name, size in files.items() if name != "params.bin") / 1e3
