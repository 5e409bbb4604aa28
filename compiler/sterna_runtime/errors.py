"""Errors that a user can act on: a code, what is wrong, where, and how to mend it.

Everything that is wrong with an input is reported at once, so one exception holds any number of diagnostics. A mistake
of the user's is always a `SternaError`; a mistake of ours is too (E0901), and says how to report it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sterna_runtime.advice import Fix, Surface, fix_text
from sterna_runtime.error_codes import CODES
from sterna_runtime.escape import terminal, terminal_lines


@dataclass(frozen=True)
class Diagnostic:
    """One problem: `title` says what is wrong, `where` leads to the place, `fix` is what to do or type, if known.

    As a string it reads as in Python; the command line prints `text("cli")`, whose fix names flags.
    """

    code: str
    title: str
    where: tuple[str, ...] = ()
    fix: Fix | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code} is not listed in sterna_runtime.error_codes.CODES")

    def text(self, surface: Surface) -> str:
        """The whole message, as it is read there. Names in it come from files: they make no lines of their own."""
        lines = [f"error[{self.code}]: {terminal(self.title)}"]
        lines += ["  " + terminal_lines(line).replace("\n", "\n    ") for line in self.where]
        if self.fix is not None:
            lines.append(f"  fix: {terminal(fix_text(self.fix, surface))}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text("python")


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


def error(code: str, title: str, *where: str, fix: Fix | None = None) -> SternaError:
    """A `SternaError` with a single diagnostic, for `raise error("E0503", ...)`."""
    return SternaError(Diagnostic(code, title, tuple(where), fix))


def system_error(problem: OSError, what: str = "", fix: Fix | None = None) -> SternaError:
    """E0010, with the system's reason; `what` it was about, where that tells more than a path."""
    reason = f"the system refused{f' {what}' if what else ''}: {problem.strerror or problem}"
    return error("E0010", reason, *((str(problem.filename),) if problem.filename else ()), fix=fix)


def internal_error(title: str, *where: str) -> SternaError:
    """An error that is ours, whatever the input was; with the place in the compiler, where an exception is being
    handled."""
    fix = "this is a bug in Sterna, not in your model; please report it with the model and this message"
    problem = sys.exc_info()[1]
    frames = [] if problem is None else traceback.extract_tb(problem.__traceback__)[-1:]
    places = [f"at {'/'.join(Path(f.filename).parts[-2:])}, line {f.lineno}, in {f.name}" for f in frames]
    return error("E0901", title, *where, *places, fix=fix)
