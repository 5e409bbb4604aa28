"""What to do about an error, as `sterna_runtime.advice` declares it: every part of the compiler gives advice."""

from sterna_runtime.advice import Advice, Compile, Fix, Option, Surface, dims, fix_text, shapes

__all__ = ["Advice", "Compile", "Fix", "Option", "Surface", "dims", "fix_text", "shapes"]
