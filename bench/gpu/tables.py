"""The tables of a run."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from gpu.device import UNKNOWN
from gpu.goals import ONNXRUNTIME, TENSORRT, TORCH, Goal, bundles
from gpu.kernels import PRODUCT
from gpu.results import OWN, Results, Row, mean

#: Rivals by the heading of a column of ratios.
RIVALS = {"x onnxruntime": ONNXRUNTIME, "x torch.compile": TORCH, "x TensorRT": TENSORRT}


def _time(us: float) -> str:
    return f"{us:.1f} us" if us < 1000 else f"{us / 1e3:.2f} ms"


def _cell(row: Row, engine: str) -> str:
    run = row.records.get(engine, {}).get("run", {})
    if run.get("wrong"):
        return "wrong"
    us = row.us(engine)
    return "-" if us is None else _time(us)


def latencies(results: Results) -> Iterator[Table]:
    """Of every precision, with the ratios and their geometric means."""
    for precision in dict.fromkeys(row.precision for row in results.networks):
        rows = [row for row in results.networks if row.precision == precision]
        engines = list(dict.fromkeys(name for row in rows for name in row.records))
        table = Table("network", "batch", *engines, *RIVALS, title=f"{precision}: a call, median of wall time")
        for row in rows:
            ratios = (row.ratio(rivals) for rivals in RIVALS.values())
            told = ("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
            table.add_row(row.network, str(row.batch), *(_cell(row, name) for name in engines), *told)
        for title, batch in (("geometric mean, batch 1", 1), ("geometric mean, all", None)):
            means = [results.ratios(precision, rivals, batch) for rivals in RIVALS.values()]
            told = (f"{mean(ratios):.2f} of {len(ratios)}" if ratios else "-" for ratios in means)
            table.add_row(title, "", *("" for _ in engines), *told)
        yield table


def kernels(results: Results) -> Table | None:
    """Rates of kernels on their own."""
    if not results.kernels:
        return None
    engines = list(dict.fromkeys(name for row in results.kernels for name in row.records))
    table = Table("kernel", *engines, "% of cuBLAS, of a copy", title="kernels on their own, by the device's clock")
    for row in results.kernels:
        unit = "GFLOP/s" if row.network == PRODUCT else "GB/s"
        rates = {name: results.rate(row.network, name) for name in engines}
        cells = []
        for name in engines:
            rate = rates[name]
            cells.append(_cell(row, name) if rate is None else f"{_cell(row, name)}; {rate:.1f} {unit}")
        own, other = rates.get(OWN), rates.get("torch-eager")
        if row.network == PRODUCT:
            share = own / other if own is not None and other is not None else None
        else:
            share = results.share_of_copy(row.network)
        table.add_row(row.label, *cells, "-" if share is None else f"{100 * share:.0f}")
    return table


def first(results: Results) -> Table:
    """Load with the first result as it was in each engine's process, and what has to be shipped."""
    engines = list(dict.fromkeys(name for row in results.networks for name in row.records))
    table = Table("network", *engines, "KB without weights", title="ms from load to the first result; compiled in s")
    sizes = dict(bundles(results))
    for row in results.networks:
        cells = []
        for name in engines:
            run, built = (row.records.get(name, {}).get(stage, {}) for stage in ("run", "compile"))
            told = f"{run['first_ms']:.0f}; {built['seconds']:.1f}" if "first_ms" in run and "seconds" in built else "-"
            cells.append(told)
        table.add_row(row.label, *cells, f"{sizes[row.label]:.0f}" if row.label in sizes else "-")
    return table


def states(results: Results) -> Table | None:
    """The device's, of every workload from the first note to the last: least and most."""
    if not results.states:
        return None
    keys = [key for key in results.states[0] if key not in ("where", "rounds")]
    table = Table("where", "notes", *keys, title="the device before and after rounds")
    for where in dict.fromkeys(state["where"] for state in results.states):
        noted = [state for state in results.states if state["where"] == where]
        table.add_row(where, str(len(noted)), *(_range([state[key] for state in noted]) for key in keys))
    return table


def _range(values: list[object]) -> str:
    numbers = [value for value in values if isinstance(value, (int, float))]
    if len(numbers) == len(values):
        least, most = min(numbers), max(numbers)
        return f"{least:g}" if least == most else f"{least:g} to {most:g}"
    return ", ".join(dict.fromkeys(str(value) for value in values)) or UNKNOWN


def judgement(found: list[Goal], is_judged: bool) -> Table:
    """The goals, and whether each is met."""
    title = (
        "goals" if is_judged else "goals of NVIDIA's GPUs: not judged on this device, where peers compute on the CPU"
    )
    table = Table("goal", "wanted", "found", "of", "", title=title)
    for goal in found:
        wanted = f"{'at most' if goal.most else 'at least'} {goal.wanted:g}{goal.unit}"
        number = "-" if goal.found is None else f"{goal.found:.2f}{goal.unit}"
        told = {True: "met", False: "MISSED", None: "not measured"}[goal.is_met]
        table.add_row(goal.name, wanted, number, goal.of if goal.found is not None else "", told if is_judged else "")
    return table
