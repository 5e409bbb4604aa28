"""The development models that compute in floats, of every format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sterna.errors import error
from support.frontend_models import frontend_model, frontend_model_names
from support.trained import FOLDER, Trained, sample

#: How the names of development models end that multiply integers.
INTEGERS = ("_int8", "_u8", "_hybrid")


def float_models(names: Sequence[str] = ()) -> Iterator[tuple[str, Trained]]:
    """Those of these names, or all; one of integers, too, if it is named.

    Raises:
        SternaError: E0006, there is no model of a name.
    """
    folders = sorted(p.name for p in FOLDER.iterdir() if p.is_dir()) if FOLDER.is_dir() else []
    own, others = ["digits", *(name for name in folders if not name.endswith(INTEGERS))], frontend_model_names()
    every = (*own, *others)
    if unknown := [name for name in names if name not in every and name not in folders]:
        raise error("E0006", f"there is no model {', '.join(unknown)}", fix=f"float models are {', '.join(every)}")
    return ((name, frontend_model(name) if name in others else sample(name)) for name in names or every)
