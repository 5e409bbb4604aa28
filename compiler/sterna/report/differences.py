"""What two models compute from the same samples, tensor by tensor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sterna.options import Options
from sterna.report.numbers import Differences, imported, samples_of, tensors, with_all_tensors
from sterna.report.subject import Subject
from sterna_runtime import Bundle, load
from sterna_runtime.cli.trial import refuse_file


def differences(a: Subject, b: Subject, options: Options, data: Path) -> list[dict[str, Any]]:
    """Tensors of B from those of A that have their names: outputs, and between kernels what neither overwrites. Models
    are compiled so that nothing is.

    Raises:
        SternaError: the samples do not fit, or one of them cannot be run here.
    """
    found = Differences()
    with _running(a, options) as one, _running(b, options) as two:
        for fed in samples_of(data, one.inputs):
            results = []
            for bundle in (one, two):
                bundle.reset_state()
                got = bundle.run({spec.name: fed[spec.name] for spec in bundle.inputs if spec.name in fed})
                results.append({**tensors(bundle), **got})
            wanted, got = results
            same = {name for name, array in got.items() if name in wanted and wanted[name].dtype == array.dtype}
            found.add({name: got[name] for name in same}, {name: wanted[name] for name in same})
    order = [spec.name for spec in (*two.outputs, *two.values)] if found.of else []
    rows = {row["name"]: row for row in found.rows()}
    return [rows[name] for name in dict.fromkeys(order) if name in rows]


@contextlib.contextmanager
def _running(subject: Subject, options: Options) -> Iterator[Bundle]:
    if subject.source is not None:
        with with_all_tensors(imported(subject.source, options)) as (_, bundle):
            yield bundle
        return
    refuse_file(subject.place)
    with load(subject.place, options.threads) as bundle:
        yield bundle
