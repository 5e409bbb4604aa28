"""What notebooks show of a bundle."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

_FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts" title="Report on the bundle" '
    'style="width: 100%; height: 720px; border: 0"></iframe>'
)


class Shown:
    """A mixin of what has a page: IPython asks `_repr_html_`, and shows `repr` where it is None."""

    #: Makes the page of an object, as a whole document of HTML. The compiler's package `sterna` sets it; None: the
    #: runtime alone is here.
    page: ClassVar[Callable[[Any], str] | None] = None

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether there is nothing to show any more."""

    def _repr_html_(self) -> str | None:
        make = type(self).page
        return None if make is None or self.closed else _FRAME.format(page=html.escape(make(self)))
