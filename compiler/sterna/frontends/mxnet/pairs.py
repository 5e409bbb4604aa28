"""The two files of an MXNet model, one beside the other."""

from __future__ import annotations

import re
from pathlib import Path

from sterna.errors import error
from sterna.frontends.source import Source

_SYMBOL = "-symbol.json"
_EPOCH = re.compile(r"-(\d{4,})\.params")


def symbol_file(source: Source) -> Path:
    """The symbol of a model that is given by it, by its weights, or by the folder of both.

    Raises:
        SternaError: E0101, there is none, or several.
    """
    path = source.file()
    if source.is_folder:
        found = [path / name for name in source.names if name.endswith(_SYMBOL)]
        if len(found) != 1:
            count = "no symbol" if not found else "several symbols"
            raise error("E0101", f"{source.name} has {count} of MXNet", fix="name the -symbol.json file inside it")
        return found[0]
    if path.suffix.lower() != ".params":
        return path
    base = _EPOCH.sub("", path.name)
    for name in (f"{base}{_SYMBOL}", f"{path.stem}.json", f"{path.stem}{_SYMBOL}"):
        if (beside := path.with_name(name)).is_file():
            return beside
    title = f"{path.name} is weights of MXNet, and there is no symbol beside it"
    raise error("E0101", title, fix=f"put {base}{_SYMBOL} beside it")


def weights_file(source: Source, symbol: Path) -> Path | None:
    """The weights of a symbol: `X-0000.params` of `X-symbol.json` (of several epochs the last), or `X.params` of
    `X.json`; None if there are none. What the user says comes first."""
    if source.weights is not None:
        return source.weights
    if not source.is_folder and source.file() != symbol:
        return source.file()
    base = symbol.name.removesuffix(_SYMBOL) if symbol.name.endswith(_SYMBOL) else symbol.stem
    epochs = []
    for other in symbol.parent.iterdir():
        match = _EPOCH.search(other.name)
        if match and other.name == base + match.group() and other.is_file():
            epochs.append((int(match.group(1)), other))
    if epochs:
        return max(epochs)[1]
    for name in (f"{base}.params", f"{symbol.stem}.params"):
        if (beside := symbol.with_name(name)).is_file():
            return beside
    return None
