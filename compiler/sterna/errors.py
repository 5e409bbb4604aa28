"""The errors of the runtime for Python, which are the compiler's too: `sterna_runtime.errors` declares them."""

from sterna_runtime.errors import Diagnostic, SternaError, error, internal_error, system_error

__all__ = ["Diagnostic", "SternaError", "error", "internal_error", "system_error"]
