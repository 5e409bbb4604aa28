"""Kernels handed to their generator while later ones are still lowered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from sterna.codegen.generators import Builder, generator_for
from sterna.options import Options

if TYPE_CHECKING:
    from sterna.codegen.source import Printed
    from sterna.loops.program import Function


class Ahead:
    """The kernels of one model on their way into objects, for the target it is compiled for.

    Leaving the `with` block gives up what is not asked for any more.
    """

    def __init__(self, model: str, options: Options):
        self._model, self._options = model, options
        self._builder: Builder | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, problem, trace)

    def begin(self, kernels: int) -> None:
        """Says how many kernels will come.

        Raises:
            SternaError: E0203, E0402, as of the generator.
        """
        options = self._options
        generator = generator_for(options.generator, options.target)
        builder = generator.Builder(self._model, options.target, options.compiler, kernels)
        self._builder = self._stack.enter_context(builder)

    def add(self, function: Function, comments: Sequence[str]) -> None:
        """The next kernel, as it will be rendered."""
        assert self._builder is not None
        self._builder.add(function, comments)

    @property
    def printed(self) -> Sequence[Printed]:
        """The kernels as text of the target's dialect, where the generator writes that."""
        return () if self._builder is None else self._builder.printed

    def objects(self) -> list[bytes] | None:
        """The object files, once all kernels are there; None if nothing was begun. Errors: those of the generator."""
        return None if self._builder is None else self._builder.objects()
