"""Memory of mapped files that is given back."""

from __future__ import annotations

from mmap import ACCESS_READ, PAGESIZE, mmap
from pathlib import Path

import numpy as np
import pytest

from sterna.ir.limits import forget

PAGES = 64


def resident(mapped: mmap) -> int:
    """Kilobytes of the mapping in this process's memory."""
    start = np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    lines = Path("/proc/self/smaps").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"{start:08x}-"))
    return next(int(line.split()[1]) for line in lines[first:] if line.startswith("Rss:"))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="what of a mapping is in memory is Linux's to tell")
def test_only_the_pages_of_an_array_are_given_back(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    contents = np.arange(PAGES * PAGESIZE, dtype=np.uint8)
    file.write_bytes(contents.tobytes())
    with file.open("rb") as opened:
        mapped = mmap(opened.fileno(), 0, access=ACCESS_READ)
    whole = np.frombuffer(mapped, np.uint8)
    half = whole[: whole.size // 2]
    assert whole.sum() == contents.sum()
    before = resident(mapped)
    forget(half.reshape(PAGES, -1).T[::-1])  # whatever the order in which they are walked
    after = resident(mapped)
    assert after == before // 2
    assert np.array_equal(whole, contents)


def test_arrays_that_are_no_files_stay() -> None:
    made = np.arange(10)
    forget(made)
    forget(made[:0])
    assert made.sum() == 45
