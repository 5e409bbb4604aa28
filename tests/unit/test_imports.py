"""The import picture of the packages: files form layers, and so do the compiler's folders, above the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from support.imports import imported, modules

#: Every module and package, each after all that it may import. The root of the package is for users, not for its parts.
LAYERS = (
    "sterna_runtime", "version", "escape", "advice", "errors", "scratch", "cache", "timing", "collector", "ir", "te",
    "intrinsics", "targets", "choices", "records", "tuned", "options", "schedule", "loops", "ops", "frontends",
    "passes", "export", "toolchain", "codegen", "runtime", "compiled", "libraries", "pipeline", "alternatives",
    "driver", "bundle", "fast", "budgets", "api", "firmware", "web", "rpc", "emulate", "debug", "quantize", "tuning",
    "package", "report", "demo",
    "cli", "__init__", "__main__",
)  # fmt: skip


def graph() -> dict[str, set[str]]:
    return {name: set(imported(path)) for name, path in modules().items()}


def layer(module: str) -> str:
    """The part of the compiler that a file belongs to; the runtime as a whole."""
    if module.split(".", maxsplit=1)[0] == "sterna_runtime":
        return "sterna_runtime"
    return module.split(".")[1] if "." in module else "__init__"


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Names that lead to each other, the first one last again; none if there are none."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as problem:
        names: list[str] = problem.args[1]
        return names[::-1]
    return []


def test_files_import_each_other_in_no_circle() -> None:
    arrows = graph()
    assert len(arrows) > 300
    assert " -> ".join(circle(arrows)) == ""


def test_folders_import_only_what_is_below_them() -> None:
    arrows = graph()
    assert {layer(name) for name in arrows} <= set(LAYERS), "a part of the package that has no place among the layers"
    up = [
        f"{name} imports {other}"
        for name, others in sorted(arrows.items())
        for other in sorted(others)
        if LAYERS.index(layer(other)) > LAYERS.index(layer(name))
    ]
    assert up == []


def test_what_is_looked_for_is_found() -> None:
    """A circle of three, behind a file that leads to it."""
    found = circle({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}, "e": set()})
    assert found[0] == found[-1]
    assert set(found) == {"b", "c", "d"}
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
