"""The functions by which kernels take panels of weights out of memory that loads reach slowly.

A program may define them, to move bytes by DMA; `model.c` has weak ones that do it by loads and stores, at once.
"""

from __future__ import annotations

#: (to, from, bytes): done when it returns.
FETCH = "sterna_fetch"
#: The same, done when the next call of `FETCH_WAIT` returns, which does so at once where nothing is on its way. One is
#: on its way at a time.
FETCH_START, FETCH_WAIT = "sterna_fetch_start", "sterna_fetch_wait"
FETCHES = (FETCH, FETCH_START, FETCH_WAIT)
