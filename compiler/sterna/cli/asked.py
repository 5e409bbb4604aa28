"""The options of a compilation, from the parameters of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

from sterna.api import options_of
from sterna_runtime.cli.values import unique

F = TypeVar("F", bound=Callable[..., Any])


def takes_options(function: F) -> F:
    """Gives a command `make_options`, which makes one `Options`, in place of all parameters that those are made of."""
    known = inspect.signature(options_of).parameters

    @wraps(function)
    def command(*arguments: Any, **values: Any) -> Any:
        settings = {name: values.pop(name) for name in list(values) if name in known}
        shapes, dims = (unique(settings.pop(name), flag) for name, flag in (("shapes", "--shape"), ("dims", "--dim")))
        if "values" in settings:
            settings["values"] = unique(settings["values"], "--value") or None
        if "pools" in settings:
            settings["pools"] = unique(settings["pools"], "--pool") or None
        if "device_for" in settings:
            settings["device_for"] = unique(settings["device_for"], "--device-for") or None
        return function(*arguments, make_options=partial(options_of, shapes=shapes, dims=dims, **settings), **values)

    return cast(F, command)
