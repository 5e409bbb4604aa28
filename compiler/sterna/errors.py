"""Errors that a user can act on: a code, what is wrong, where, and how to mend it.

Everything that is wrong with an input is reported at once, so one exception holds any number of diagnostics. A mistake
of the user's is always a `SternaError`; a mistake of ours is too (E0901), and says how to report it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

CODES: dict[str, str] = {
    # E00xx command line; E0001 and E0002 end with status 2
    "E0001": "the command line is not understood",
    "E0002": "the value of an option is not of the form it needs",
    "E0003": "a file with inputs cannot be read",
    "E0004": "a package that this needs is not installed",
    "E0005": "a file does not fit the input it is given for",
    "E0006": "what is named is not a bundle or a model",
    "E0007": "the results cannot be written",
    "E0008": "a compiled model and its reference disagree",
    "E0009": "the reference cannot run the model",
    "E0010": "the operating system refused something",
    # E01xx model and front end
    "E0101": "the model file cannot be read, or is not a model",
    "E0102": "the model needs an operator set that this version does not know",
    "E0103": "the model's graph is malformed",
    "E0104": "the model uses operators that are not supported",
    "E0105": "an input has a dimension of unknown size",
    "E0106": "a given shape or dimension does not fit the model",
    "E0107": "an operand must be known when the model is compiled",
    "E0108": "the operands of an operator do not fit together",
    "E0109": "an attribute of an operator is missing, unknown or of the wrong kind",
    "E0110": "external data of the model is missing, damaged or outside its folder",
    "E0111": "an element type is not supported",
    "E0112": "a tensor of the model is too large",
    "E0113": "this use of a supported operator is not supported",
    "E0114": "a tensor is quantized in a way that means nothing",
    "E0115": "a weight does not fit the type that weights are to be stored in",
    # E02xx compiler options and targets
    "E0201": "there is no such target",
    "E0202": "a target description is malformed",
    "E0203": "a compiler option has an impossible value",
    "E0204": "the output directory cannot be written",
    # E03xx schedules
    "E0301": "a saved schedule names a primitive that does not exist",
    "E0302": "a schedule step is not legal for the stage it is applied to",
    "E0303": "a schedule does not lead to loops",
    "E0304": "register storage is used in a way that registers cannot serve",
    "E0305": "a loop program may reach outside of a buffer",
    # E04xx toolchain
    "E0401": "the compiler that builds the C runtime is missing or failed",
    "E0402": "a compiler or linker is missing",
    "E0403": "a compiler or linker rejected generated code",
    "E0404": "an object file contains something that a bundle must not",
    # E05xx bundle and runtime; E0501 to E0512 are the status codes of runtime_c/include/sterna.h
    "E0501": "a call of the runtime was given an impossible argument",
    "E0502": "the runtime could not get the memory or threads it asked for",
    "E0503": "a file of the bundle cannot be opened or read",
    "E0504": "a file of the bundle is malformed or contradicts itself",
    "E0505": "a file of the bundle is damaged: its size or hash is not the one written when it was compiled",
    "E0506": "the bundle was written for another version of the format or of the kernel interface",
    "E0507": "the bundle was compiled for another machine",
    "E0508": "the bundle's kernel library cannot be opened or does not fit its graph",
    "E0509": "the bundle has no tensor of that name",
    "E0510": "the tensor's memory does not hold its value any more, or not yet",
    "E0511": "a kernel reported a failure",
    "E0512": "the runtime was built without what was asked for",
    "E0520": "the bundle has been closed",
    "E0521": "the C runtime library was not found and cannot be built",
    # E06xx inputs at run time
    "E0601": "an input is missing",
    "E0602": "an input is not one of the model's",
    "E0603": "an input has another element type than the model's",
    "E0604": "an input has another shape than the model's",
    "E0605": "an input cannot be bound without a copy",
    "E0606": "an input is not an array",
    # E07xx quantization, and ONNX as an output
    "E0701": "the model is quantized already",
    "E0702": "there are no samples to calibrate with",
    "E0703": "a sample, or what the model makes of it, is not a finite number",
    "E0704": "the bound on the error cannot be reached",
    "E0705": "nothing of the model can be quantized",
    "E0706": "a node that is named is not in the model",
    "E0707": "something of the model has no form in ONNX",
    # E09xx our own mistakes
    "E0901": "internal error",
}
"""Every code that may be raised, with its meaning in one line. A code that is not here cannot be used."""


@dataclass(frozen=True)
class Diagnostic:
    """One problem: `title` says what is wrong, `where` leads to the place, `fix` is what to do or type, if known."""

    code: str
    title: str
    where: tuple[str, ...] = ()
    fix: str | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code} is not listed in sterna.errors.CODES")

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.title}", *(f"  {line}" for line in self.where)]
        if self.fix is not None:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


class SternaError(Exception):
    """One or more diagnostics; its text is all of them, separated by blank lines."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        if not self.diagnostics:
            raise ValueError("a SternaError needs at least one diagnostic")
        super().__init__(self.diagnostics)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the diagnostics, in their order."""
        return tuple(diagnostic.code for diagnostic in self.diagnostics)

    def within(self, place: str) -> SternaError:
        """The same mistakes, in a place of which theirs are parts."""
        return SternaError(replace(each, where=(place, *each.where)) for each in self.diagnostics)

    def __str__(self) -> str:
        return "\n\n".join(str(diagnostic) for diagnostic in self.diagnostics)


def error(code: str, title: str, *where: str, fix: str | None = None) -> SternaError:
    """A `SternaError` with a single diagnostic, for `raise error("E0503", ...)`."""
    return SternaError(Diagnostic(code, title, tuple(where), fix))


def internal_error(title: str, *where: str) -> SternaError:
    """An error that is ours, whatever the input was."""
    fix = "this is a bug in Sterna, not in your model; please report it with the model and this message"
    return error("E0901", title, *where, fix=fix)
