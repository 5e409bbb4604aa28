"""Bundles in a page: the server behind `sterna serve`."""
