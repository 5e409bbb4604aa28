"""What a front end is: a format of trained models, how it is told from others, and how its models are read.

A front end is a class; `sterna.frontends.register` makes it known, and then every command and function takes its
models. Its module is imported whenever models are read, of whatever format: what it needs to read one is imported in
the methods.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from sterna.errors import Diagnostic
from sterna.frontends.description import Description
from sterna.frontends.source import Source
from sterna.ir.graph import Array, Graph
from sterna_runtime.arguments import Dims

Shapes = Mapping[str, Sequence[int] | None]


class Confidence(IntEnum):
    """How sure a front end is that a source is one of its models. The surest reads it."""

    NO = 0
    NAMED = 1  #: by its name only; nothing in it says so
    POSSIBLE = 2  #: what is there does not contradict it
    LIKELY = 3  #: it holds what models of the format hold
    CERTAIN = 4  #: it says so itself, as by a magic number


@dataclass(frozen=True)
class ReadOptions:
    """What is asked of a front end beside the model.

    Args:
        shapes: input name -> its sizes, where the model leaves them open; None for a sequence or optional of nothing.
        dims: dimension name -> its size, or the least and the greatest of one that stays open, and what divides it.
        static: no size may be left to the data that the bundle runs on.
        signature: which of the model's entries is meant; None: the usual one.
        weights_file: where its weights are, of a model in two files; None: beside it.
        example_inputs, dynamic_shapes: what a module of Python is exported with, as `torch.export.export` takes them.
        values: input name -> what it always is: a constant of the graph, and no input of it.

    A field with `refused` among its metadata is one that formats may lack: a front end names it in `takes`, and where
    it does not, a value is refused with these words; `{value}` is what was given, `{titles}` the formats that take it.
    """

    shapes: Shapes = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)
    static: bool = False
    signature: str | None = field(
        default=None,
        metadata={"refused": ('the model has no signature "{value}"', "only {titles} models have signatures")},
    )
    weights_file: str | os.PathLike[str] | None = field(
        default=None,
        metadata={"refused": ("the model has no weights in a file of their own", "only {titles} models have")},
    )
    example_inputs: Any = field(
        default=None,
        metadata={"refused": ("example_inputs go with a model that is exported first", "only {titles} models are")},
    )
    dynamic_shapes: Any = field(
        default=None,
        metadata={"refused": ("dynamic_shapes go with a model that is exported first", "only {titles} models are")},
    )

    values: Mapping[str, Any] | None = field(
        default=None,
        metadata={"refused": ("inputs of the model cannot be given values", "only those of {titles} models can")},
    )

    @property
    def sizes(self) -> dict[str, Sequence[int]]:
        """The shapes, for formats whose inputs are all tensors."""
        return {name: sizes for name, sizes in self.shapes.items() if sizes is not None}

    def unwanted(self, taken: frozenset[str], titles: Callable[[str], str]) -> list[Diagnostic]:
        """What was given that a format does not have (E0106).

        Args:
            taken: the fields that it has; titles: field -> the formats that have it, in words.
        """
        found = []
        for each in fields(self):
            words = each.metadata.get("refused")
            value = getattr(self, each.name)
            if words is not None and value is not None and each.name not in taken:
                title, where = (text.format(value=value, titles=titles(each.name)) for text in words)
                found.append(Diagnostic("E0106", title, (where,), "leave it out"))
        return found


@dataclass(frozen=True)
class Extra:
    """A module that reading a format needs, and that does not come with Sterna.

    Args:
        module: as Python imports it.
        install: the command that brings it: `pip install "sterna[coreml]"`.
    """

    module: str
    install: str

    @property
    def is_installed(self) -> bool:
        try:
            return find_spec(self.module) is not None
        except (ImportError, ValueError):
            return False


@dataclass(frozen=True)
class Runtime:
    """The program that runs models of a format elsewhere, which `sterna verify` compares with.

    Args:
        name: as `--against` calls it.
        distributions: what brings it; the first is what to install.
    """

    name: str
    distributions: tuple[str, ...]

    @property
    def version(self) -> str | None:
        """The installed one, or None."""
        return installed_version(*self.distributions)


def installed_version(*distributions: str) -> str | None:
    """The version of the first of some distributions that is installed; None if none is."""
    for distribution in distributions:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


#: From inputs, and names of intermediate tensors that are wanted too, to outputs and tensors by name, as far as there
#: are such.
Run = Callable[[Mapping[str, Array], Iterable[str]], dict[str, Array]]


@dataclass(frozen=True)
class Reference:
    """What the results of a compiled model are compared with.

    Args:
        run: runs the model by the runtime of its format; None where there is none, and the interpreter takes its place.
        again: the outputs, computed in another order of operations where the runtime has one.
        name: of the runtime, with its version.
        missing: why there is no runtime, in words; empty where there is one or none was asked for.
        approximated: the model's nodes whose import differs from the runtime by design: name -> how, in a sentence
            without its full stop; None where there are none. Called only when outputs differ.
    """

    run: Run | None
    again: Run | None = None
    name: str = "the interpreter"
    missing: str = ""
    approximated: Callable[[], Mapping[str, str]] | None = None

    def apart(self, sources: Iterable[str] | None = None) -> tuple[str, ...]:
        """How the import of some of the model's nodes differs from the runtime by design; None: of any of them."""
        known = {} if self.approximated is None else self.approximated()
        names = known if sources is None else sources
        return tuple(dict.fromkeys(known[name] for name in names if name in known))


@dataclass(frozen=True)
class Support:
    """How an operator of a format is compiled, for the tables of the documentation.

    Args:
        operator: its name, with its domain where it has one of its own.
        how: "translated", "control flow" ...; "not supported".
        custom: it is no operator of the format itself.
    """

    operator: str
    how: str
    custom: bool = False


class Frontend(ABC):
    """A format of trained models.

    Attributes:
        name: what `register`, graph.json and programs call it: `onnx`.
        title: what people call it: `ONNX`.
        suffixes: usual endings of its files; they decide where the content does not.
        takes: fields of `ReadOptions` that not every format has, and this one does.
        extras: what must be installed to read it.
        runtime: what `verify` compares with, if there is something.
        objects: what objects of Python it reads, with an article: `an onnx.ModelProto`; empty: none.
        named_classes: names of classes are looked for in a file beside the model, as its own files have none.
        from_bytes, from_stream: how Python makes such an object of a file's bytes, and of an open file, called `model`.
    """

    name: str
    title: str
    suffixes: tuple[str, ...] = ()
    takes: frozenset[str] = frozenset()
    extras: tuple[Extra, ...] = ()
    runtime: Runtime | None = None
    objects: str = ""
    named_classes: bool = False
    from_bytes: str = ""
    from_stream: str = ""

    @abstractmethod
    def detect(self, source: Source) -> Confidence:
        """How sure it is that this is a model of its format. It looks at `source` only, and imports nothing."""

    @abstractmethod
    def read(self, source: Source, options: ReadOptions) -> Graph:
        """The model as a graph of core operators, its values named as the model's tensors.

        Raises:
            SternaError: all that is wrong with it, at once.
        """

    @abstractmethod
    def describe(self, source: Source, options: ReadOptions) -> Description:
        """What the model holds, without compiling it.

        Raises:
            SternaError: it cannot be read at all; operators that are not supported are among `problems`.
        """

    def reference(self, source: Source, options: ReadOptions) -> Reference | None:
        """How `runtime`, which is installed, runs the model; None if it cannot run this one."""
        return None

    def without_reference(self, source: Source) -> str:
        """Why `runtime` runs no model of this kind, installed or not; empty where it may."""
        return ""

    def operators(self) -> tuple[Support, ...]:
        """All operators of the format, those that are not supported too; none where a format has no operators."""
        return ()

    def as_onnx(self, source: Source) -> Any:
        """The model as an `onnx.ModelProto` with its weights inside, where it is one already; else None."""
        return None
