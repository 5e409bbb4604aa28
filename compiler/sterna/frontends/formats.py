"""The registry of front ends: which of them reads a model, and all that the rest of the compiler asks them.

A model says what it is by its content: every front end is asked how sure it is, and the surest reads it. Nothing
outside of `frontends` knows a format by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, overload

import numpy as np

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends import custom
from sterna.frontends.archives import Unpacked
from sterna.frontends.class_names import with_class_names
from sterna.frontends.description import Description
from sterna.frontends.detectors import with_value_labels
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Run
from sterna.frontends.inputs import limits_of, multiples_given, open_size, size_text
from sterna.frontends.runtimes import cannot_run
from sterna.frontends.source import Source, looks_like
from sterna.frontends.tripped import reading
from sterna.ir.graph import Array, Graph
from sterna_runtime.advice import Advice, Option
from sterna_runtime.advice import dims as dims_given
from sterna_runtime.arguments import Dims

#: A path of a file or a folder, an object of Python that a front end reads, or the `Source` made of one.
Model = object

#: Modules of the front ends that come with Sterna; each has a list of them, and is quick to import.
_MODULES = (
    "sterna.frontends.onnx.frontend",
    "sterna.frontends.tflite.frontend",
    "sterna.frontends.boosted.frontend",
    "sterna.frontends.keras.frontend",
    "sterna.frontends.darknet.frontend",
    "sterna.frontends.caffe.frontend",
    "sterna.frontends.pytorch.frontend",
    "sterna.frontends.tensorflow.frontend",
    "sterna.frontends.coreml.frontend",
    "sterna.frontends.mxnet.frontend",
)
_TRIED = 64  # files of an archive that are looked at
#: The group of entry points by which packages offer front ends of their own.
PLUGINS = "sterna.frontends"

_FRONTENDS: dict[str, Frontend] = {}


class Registration:
    """What `register` made known; `remove`, or the end of a `with` block, takes it back."""

    def __init__(self, undo: Callable[[], None]):
        self._undo: Callable[[], None] | None = undo

    def remove(self) -> None:
        """Takes it back; a second time nothing happens."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


@overload
def register(what: Frontend) -> Registration: ...
@overload
def register(what: str, operator: str, translate: Callable[[Any], Any]) -> Registration: ...
def register(
    what: Frontend | str, operator: str | None = None, translate: Callable[[Any], Any] | None = None
) -> Registration:
    """Makes a front end known, or the translation of an operator of a format.

        register(MyFormat())
        register("onnx", "com.example::Sparkle", translate)

    Args:
        what: a front end, or the name of a format.
        operator: as the format calls it; of ONNX, `domain::operator`.
        translate: from a translation (the format's own `Translation`: the node, its operands, and means to build core
            operators) to the operator's result, or a tuple of its results. It comes before Sterna's own.

    Raises:
        SternaError: E0203, there is another front end of that name, no such format, or it is no function.
    """
    if isinstance(what, Frontend):
        if what.name in frontends():
            raise error("E0203", f"there is a front end {what.name} already", fix="give it another name")
        return Registration(_added(what))
    if not isinstance(what, str) or what not in frontends():
        known = ", ".join(frontends())
        raise error("E0203", f"there is no format {what!r}", f"formats: {known}", fix="a name of these, or a Frontend")
    if not isinstance(operator, str) or not operator or not callable(translate):
        raise error("E0203", "a translation is registered by the operator's name and a function")
    return Registration(custom.put(what, operator, translate))


def _added(frontend: Frontend) -> Callable[[], None]:
    _FRONTENDS[frontend.name] = frontend

    def undo() -> None:
        _FRONTENDS.pop(frontend.name, None)

    return undo


def frontends() -> dict[str, Frontend]:
    """All front ends that are known, by name: those that come with Sterna first."""
    if not _FRONTENDS:  # all at once: another thread may be looking
        own = (each for module in _MODULES for each in import_module(module).FRONTENDS)
        _FRONTENDS.update({each.name: each for each in own})
    return dict(_FRONTENDS)


def _plugins() -> list[Frontend]:
    """Front ends of installed packages that were not known yet; now they are.

    Raises:
        SternaError: E0004, one of them cannot be imported.
    """
    found = []
    for point in sorted(entry_points(group=PLUGINS), key=lambda point: point.name):
        if point.name in frontends():
            continue
        try:
            made = point.load()
            made = made() if isinstance(made, type) else made
        except Exception as problem:  # it is not ours: whatever it does when it is imported
            title = f"the front end {point.name} of another package cannot be imported"
            raise error("E0004", title, f"{point.value}: {type(problem).__name__}: {problem}") from None
        if not isinstance(made, Frontend) or made.name != point.name:
            raise error("E0004", f"{point.value} is not a front end called {point.name}")
        _added(made)
        found.append(made)
    return found


# ---------------------------------------------------------------- detection
def find(model: Model) -> Frontend | None:
    """The front end that reads a model; None if there is none.

    Raises:
        SternaError: E0101, the file cannot be read, or several are equally sure.
    """
    source = source_of(model)
    return _rated(source)


def _rated(source: Source) -> Frontend | None:
    return _surest(source, frontends().values()) or _surest(source, _plugins())


def source_of(model: Model) -> Source:
    """The source of a model: what the user gave, or what an archive holds that no format reads itself.

    Raises:
        SternaError: E0101, it cannot be read, or an archive's files lead out of it; E0112, they are too large.
    """
    source = Source.of(model)
    if not source.is_archive or not source.names or _rated(source) is not None:
        return source
    unpacked = Unpacked(source)
    inside = _inside(Source.of(unpacked.folder))
    return source if inside is None else replace(inside, model=model, kept=unpacked)


def _inside(folder: Source) -> Source | None:
    """The model in a folder: the folder itself, or the only file in it that says itself that it is one."""
    if _rated(folder) is not None:
        return folder
    files = [Source.of(path) for path in folder.files[:_TRIED]]
    found = [file for file in files if any(_says_so(each, file) for each in frontends().values())]
    return found[0] if len(found) == 1 else None


def _says_so(frontend: Frontend, file: Source) -> bool:
    """Whether a file's content says that it is a model, or its name does and the content does not contradict it."""
    confidence = frontend.detect(file)
    return confidence >= (Confidence.POSSIBLE if file.suffix in frontend.suffixes else Confidence.LIKELY)


def _surest(source: Source, candidates: Iterable[Frontend]) -> Frontend | None:
    rated = [(each.detect(source), each) for each in candidates]
    most = max((confidence for confidence, _ in rated), default=Confidence.NO)
    best = [each for confidence, each in rated if confidence is most and most > Confidence.NO]
    named = [each for each in best if source.suffix in each.suffixes]
    if len(best) > 1 and len(named) != 1:
        titles, endings = _either(each.title for each in best), [e for each in best for e in each.suffixes[:1]]
        fix = f"give the file its usual ending: {_either(endings)}" if source.path is not None and endings else None
        raise error("E0101", f"{source.name} may be a model of {titles}", looks_like(source), fix=fix)
    return next(iter(named if len(best) > 1 else best), None)


def frontend_of(model: Model) -> Frontend:
    """The front end that reads a model.

    Raises:
        SternaError: E0101, there is none, several are equally sure, or the file cannot be read.
    """
    source = source_of(model)
    found = _rated(source)
    if found is None:
        folder = source.is_folder
        title = f"{source.path} is a folder, not a model file" if folder else f"{source.name} is not a model"
        fix = "name the model file inside it" if folder else "export it to a format that is read"
        raise error("E0101", title, looks_like(source), f"it was tried as {tried()}", fix=fix)
    return found


def tried() -> str:
    """The formats that models are tried as, with the usual endings of their files."""
    return ", ".join(f"{f.title} ({', '.join(f.suffixes)})" if f.suffixes else f.title for f in frontends().values())


def titles() -> str:
    """The formats, in words."""
    return ", ".join(each.title for each in frontends().values())


def _either(words: Iterable[str]) -> str:
    *others, last = list(words) or ["none"]
    return f"{', '.join(others)} or {last}" if others else last


# ---------------------------------------------------------------- what a front end is asked
def format_of(model: Model) -> str:
    """What a model is, by its content: the name of its front end."""
    return frontend_of(model).name


def read_model(model: Model, options: ReadOptions | None = None) -> Graph:
    """A model as a graph of core operators.

    Raises:
        SternaError: E0101 it is not a model, E0004 what its format needs is not installed, E0106 options that the
            format does not have; whatever the front end raises.
    """
    options = options or ReadOptions()
    options = replace(options, dims=multiples_given(options.dims))
    _check_dims(options.dims)
    source = _source(model, options)
    frontend = _ready(source, options)
    # Where a file's numbers overflow, what is made of them is infinite, as anywhere else in the compiler.
    with np.errstate(all="ignore"), reading(source.name):
        graph = frontend.read(source, options)
    if frontend.named_classes:
        graph = with_class_names(graph, source, frontend.name)
    return with_value_labels(graph, frontend.name)


def describe_model(model: Model, options: ReadOptions | None = None) -> Description:
    """What a model holds, without compiling it; errors as of `read_model`."""
    options = options or ReadOptions()
    source = _source(model, options)
    frontend = _ready(source, options)
    with reading(source.name):
        return frontend.describe(source, options)


def _source(model: Model, options: ReadOptions) -> Source:
    """The source of a model, with its weights if they are said to be elsewhere."""
    source = source_of(model)
    return source if options.weights_file is None else source.with_weights(options.weights_file)


def as_onnx(model: Model) -> Any:
    """A model that is one of ONNX, as an `onnx.ModelProto` with its weights inside; None if it is of another format."""
    source = source_of(model)
    return _ready(source, ReadOptions()).as_onnx(source)


def _ready(source: Source, options: ReadOptions) -> Frontend:
    """The front end of a model, which has what it needs and what it is asked for."""
    frontend = frontend_of(source)
    problems = options.unwanted(frontend.takes, lambda name: _either(_titles_with(name)))
    problems += [
        Diagnostic("E0004", f"{frontend.title} is read with {extra.module}, which is not installed", (), extra.install)
        for extra in frontend.extras
        if not extra.is_installed
    ]
    if problems:
        raise SternaError(problems)
    return frontend


def _titles_with(option: str) -> list[str]:
    return [each.title for each in frontends().values() if option in each.takes]


def _check_dims(given: Dims) -> None:
    """Refuses sizes that no dimension has (E0106), also 0 for one that never has another: nothing would be computed."""
    problems = []
    for name, size in given.items():
        if isinstance(size, str) or (limits_of(size)[1] > 0 and open_size(name, size) is not None):
            continue
        text = size_text(size)
        empty = dims_given({name: (0, 8)})
        fix = Advice(dims_given({name: 1}), ", or ", empty, " for one that may be empty when the model runs")
        problems.append(Diagnostic("E0106", f"the dimension {name} cannot be {text}", (), fix))
    if problems:
        raise SternaError(problems)


# ---------------------------------------------------------------- references
AUTO, INTERPRETER = "auto", "interpreter"


def references() -> tuple[str, ...]:
    """What `verify` can be told to compare with."""
    runtimes = [each.runtime.name for each in frontends().values() if each.runtime is not None]
    return (AUTO, *dict.fromkeys(runtimes), INTERPRETER)


def reference_for(model: Model, against: str = AUTO, options: ReadOptions | None = None) -> Reference:
    """What a model is compared with: what `against` names; "auto": the runtime of its format, if that is installed.

    Raises:
        SternaError: E0203, it cannot run models of this format; E0004, it is not installed.
    """
    options = options or ReadOptions()
    source = _source(model, options)
    frontend = frontend_of(source)
    runtime = frontend.runtime
    if against not in (AUTO, INTERPRETER) and (runtime is None or against != runtime.name):
        fix = Advice(Option("against", INTERPRETER if runtime is None else runtime.name))
        raise error("E0203", f"{against} cannot run this model", fix=fix)
    if against == INTERPRETER:
        return Reference(None)
    if runtime is None:
        return Reference(None, missing=f"there is no runtime of {frontend.title}")
    reason = frontend.without_reference(source)
    if reason and against == AUTO:
        return Reference(None, missing=reason)
    if reason:
        raise error("E0203", f"{against} cannot run this model", reason, fix=Advice(Option("against", INTERPRETER)))
    version = runtime.version
    if version is None:
        if against == AUTO:
            return Reference(None, missing=f"{runtime.name} is not installed")
        install = f"pip install {runtime.distributions[0]}"
        raise error("E0004", f"{runtime.distributions[0]} is not installed", fix=install)
    try:
        found = frontend.reference(source, options)
    except SternaError as mistake:
        if against != AUTO or set(mistake.codes) != {"E0009"}:
            raise
        (problem,) = mistake.diagnostics
        return Reference(None, missing=": ".join([problem.title, *problem.where]))
    if found is None:
        return Reference(None, missing=f"{runtime.name} cannot run this model")
    run, again = (None if each is None else partial(_run, runtime.name, each) for each in (found.run, found.again))
    return replace(found, run=run, again=again, name=f"{runtime.name} {version}")


def _run(name: str, run: Run, inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
    """What a runtime makes of inputs.

    Raises:
        SternaError: E0009, it refuses them.
    """
    try:
        return run(inputs, tensors)
    except SternaError:
        raise
    except Exception as problem:  # their errors have no common type
        raise cannot_run(name, problem) from None


# ---------------------------------------------------------------- objects of Python
def reads_object(value: object) -> bool:
    """Whether an object of Python is a model of some format."""
    return find(Source(value)) is not None


def accepted() -> str:
    """What may be given as a model, in words."""
    return _either(["a path", *(each.objects for each in frontends().values() if each.objects)])


def instead_of_bytes(content: bytes) -> str:
    """What to give in place of the bytes of a model file."""
    found = find(Source(content, start=content))
    if found is None:
        return "the path of a file"
    if found.from_bytes:
        return f"{found.from_bytes}, or the path of a file"
    return f"write the model to a {found.suffixes[0] + ' file' if found.suffixes else 'file'} and give its path"


def instead_of_stream() -> str:
    """What to give in place of an open file."""
    ways = [each.from_stream for each in frontends().values() if each.from_stream]
    return ", or ".join([*ways, "the path of a file"])
