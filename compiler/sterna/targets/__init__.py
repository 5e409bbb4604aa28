"""Targets: what the compiler knows of a machine, as data."""
