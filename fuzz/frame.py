"""What every fuzzer is and reports, and how its budget is kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Inputs of every fuzzer that found something once, or reach code that mutations alone do not: replayed first.
CORPUS = Path(__file__).resolve().parent / "corpus"

TOLD = 60.0  # seconds between counts that are printed


@dataclass
class Budget:
    """How long a fuzzer may go on: until `seconds` have passed or `executions` were made, whichever comes first.

    A run that is ended before has printed its counts and saved its findings up to there.
    """

    seconds: float
    executions: int | None = None
    findings: Path | None = None  # where a fuzzer that can saves what it finds as it goes
    made: int = 0
    started: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> bool:
        """Whether the fuzzer must stop."""
        late = time.monotonic() - self.started >= self.seconds
        return late or (self.executions is not None and self.made >= self.executions)

    def count(self, executions: int = 1) -> None:
        """Adds executions that were made, and prints every minute how many there are."""
        self.made += executions
        now = time.monotonic()
        if now - self.told >= TOLD:
            self.told = now
            print(f"  {self.made:,} executions in {(now - self.started) / 60:.0f} min", flush=True)


@dataclass(frozen=True)
class Finding:
    """Something that must not happen: a crash, a hang, too much memory, an uncaught error, a wrong answer.

    `kind` is one of those words; `text` says what was seen; `data` is the input that shows it, as `replay` takes it.
    """

    kind: str
    text: str
    data: bytes

    def save(self, folder: Path) -> Path:
        """Writes the input under a name that its contents give, so that the same one is kept once."""
        folder.mkdir(parents=True, exist_ok=True)
        path = self.path(folder)
        path.write_bytes(self.data)
        return path

    def path(self, folder: Path) -> Path:
        """Where `save` writes it."""
        return folder / f"{self.kind.replace(' ', '-')}-{hashlib.sha256(self.data).hexdigest()[:16]}"


@dataclass(frozen=True)
class Fuzzer:
    """A fuzzer: what it attacks, and how.

    Args:
        about: what it does, in one line.
        fuzz: called with the budget, a seed and an empty work folder; counts executions and returns what it found. It
            begins with the corpus, `CORPUS / name`, then mutates; the same seed makes the same inputs.
        replay: executes one saved input and returns what it finds, for a finding to be looked into and mended.
        needs: programs that must be on the PATH.
    """

    name: str
    about: str
    fuzz: Callable[[Budget, int, Path], Sequence[Finding]]
    replay: Callable[[bytes, Path], Sequence[Finding]]
    needs: tuple[str, ...] = ()

    def corpus(self) -> list[bytes]:
        """The inputs that the repository keeps for this fuzzer, in the order of their names."""
        folder = CORPUS / self.name
        return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []
