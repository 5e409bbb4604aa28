"""The page of a loaded bundle, for notebooks (`Bundle._repr_html_`)."""

from __future__ import annotations

from sterna.report.data import describe, document
from sterna.report.page import page
from sterna.report.subject import subject_of
from sterna_runtime import Bundle


def page_of(bundle: Bundle) -> str:
    """Its report, without times.

    Raises:
        SternaError: its files have been changed or deleted since it was loaded.
    """
    return page(document([describe(subject_of(bundle.directory))]))
