"""What commands say of bundles and of runs: numbers for people, JSON for scripts. How it is laid out they decide."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from sterna_runtime.advice import fix_text
from sterna_runtime.checks import TensorCheck
from sterna_runtime.describe import BundleFacts, bundle_totals, dimension_text
from sterna_runtime.errors import SternaError, error
from sterna_runtime.golden import Replay, ReplayedOutput
from sterna_runtime.inputs import TensorSpec
from sterna_runtime.meaning import Quantization

_SHOWN = 4  # outputs that differ


def size(count: int) -> str:
    """Bytes for people: exact while that is short."""
    if count < 10_000:
        return f"{count:,} B"
    return f"{count / 1e3:,.1f} kB" if count < 1_000_000 else f"{count / 1e6:,.1f} MB"


def number_of(count: int, noun: str) -> str:
    """1 kernel, 2 kernels, 1,200 kernels."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def calls_text(nodes: int, kernels: int) -> str:
    """What a bundle runs: 3 nodes call 2 kernels."""
    return f"{number_of(nodes, 'node')} {'calls' if nodes == 1 else 'call'} {number_of(kernels, 'kernel')}"


def duration(seconds: float) -> str:
    """A time with three digits: 2.15 us, 13.2 ms."""
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            value = seconds * factor
            digits = 0 if unit == "ns" or value >= 100 else 1 if value >= 10 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{seconds:.2f} s"


@dataclass(frozen=True)
class Signature:
    """An input or output as text and JSON show it.

    Args:
        shape: a size that is open is an expression; None where not even the rank is known.
        note: what its elements stand for.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    note: str = ""

    def __str__(self) -> str:
        return f"{self.dtype}[{'...' if self.shape is None else ', '.join(map(str, self.shape))}]"

    def json(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype, "shape": None if self.shape is None else list(self.shape)}


def type_text(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"


def spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": list(spec.shape)}


def tensor_signature(value: dict[str, Any], graph: dict[str, Any]) -> Signature:
    """A value of graph.json as an input or output."""
    symbols = graph.get("symbols", ())
    notes = []
    if (known := value.get("quantization")) is not None:
        axis = known.get("axis") if len(known["scale"]) > 1 else None
        notes.append(str(Quantization(tuple(known["scale"]), tuple(known["zero_point"]), axis)))
    labels = graph.get("metadata", {}).get("labels", {}).get(value["name"], ())
    if labels:
        notes.append(f"{len(labels)} labels")
    shape = tuple(dimension_text(n, symbols) for n in value["dims"])
    return Signature(value["name"], value["dtype"], shape, ", ".join(notes))


def bundle_json(facts: BundleFacts) -> dict[str, Any]:
    """What is in a bundle."""
    return {
        "kind": "bundle",
        "directory": str(facts.directory),
        "intact": facts.intact,
        "sizes": facts.sizes,
        "bytes": sum(facts.sizes.values()),
        "totals": None if facts.graph is None else dataclasses.asdict(bundle_totals(facts.graph)),
        "graph": facts.graph,
    }


def errors_json(mistake: SternaError) -> list[dict[str, Any]]:
    """The diagnostics, for scripts."""
    return [
        {"code": d.code, "title": d.title, "where": list(d.where), "fix": d.fix and fix_text(d.fix, "cli")}
        for d in mistake.diagnostics
    ]


def check_json(check: TensorCheck) -> dict[str, Any]:
    row: dict[str, Any] = dataclasses.asdict(check)
    row.update(shape=list(check.shape), at=list(check.at))
    return {key: finite(value) if isinstance(value, float) else value for key, value in row.items()}


def number(value: float | str) -> str:
    return repr(value) if isinstance(value, str) else f"{value:.7g}"


def finite(value: float) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else None


def golden_mistake(result: Replay) -> SternaError | None:
    """E0008, if an output of a golden set is not what it should be."""
    wrong = [output for output in result.outputs if not output.ok]
    if not wrong:
        return None
    names = ", ".join(dict.fromkeys(f"{output.check.name} of set {output.number}" for output in wrong[:_SHOWN]))
    title = f"{len(wrong)} of {len(result.outputs)} golden outputs differ from {result.reference}: {names}"
    title += f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    fix = "this is a bug in Sterna, unless the bundle was changed or the tolerance is too small; please report it"
    return error("E0008", title, *map(_golden_place, wrong[:_SHOWN]), fix=fix)


def _golden_place(output: ReplayedOutput) -> str:
    check = output.check
    at = f"at {list(check.at)} it is {number(check.got)} and should be {number(check.wanted)}"
    return f"{check.name} of set {output.number}: {at}, tolerance {output.tolerance:g}"


def golden_json(result: Replay, mistake: SternaError | None) -> dict[str, Any]:
    """Golden sets, replayed."""
    rows = [
        {"set": each.number, "ok": each.ok, "tolerance": each.tolerance, **check_json(each.check)}
        for each in result.outputs
    ]
    facts = {"ok": result.ok, "reference": result.reference, "sets": result.sets, "error": finite(result.error)}
    return {**facts, "outputs": rows, **({"errors": errors_json(mistake)} if mistake else {})}


def golden_sentence(name: str, result: Replay, verdict: str) -> str:
    """What came of a bundle's golden sets; `verdict`: whether it agrees, in words."""
    many = number_of(result.sets, "golden set")
    return f"{name} {verdict} {result.reference} in {many} (error {result.error:.1e} of the largest output)"
