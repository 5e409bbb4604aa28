"""The garbage collector while a model is compiled.

Lowering makes millions of small objects that live on and hold no cycles; looking through them again and again takes a
quarter of its time. What goes at all goes by counts of references, so the collector waits until there are more objects
than a model of thousands of kernels makes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

#: New objects after which the collector looks at the youngest ones.
_SELDOM = 5_000_000

_lock = Lock()
_inside = 0
_before = (0, 0, 0)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Within it, in whatever threads, the collector runs seldom; one that is off stays off, one set wider stays so."""
    global _inside, _before  # noqa: PLW0603 - the collector's settings are the process's, too
    with _lock:
        if _inside == 0:
            _before = gc.get_threshold()
            if 0 < _before[0] < _SELDOM:
                gc.set_threshold(_SELDOM, *_before[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                gc.set_threshold(*_before)
