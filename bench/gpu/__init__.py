"""Sterna on a GPU beside its peers there (`ci/bench-gpu --help`)."""
