"""The version of the runtime for Python: that of the compiler whose release it is part of."""

__version__ = "0.1.0"
