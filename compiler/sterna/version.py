"""The version of the compiler, which every bundle names."""

__version__ = "0.1.0"
