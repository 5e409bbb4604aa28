"""Running bundles where the compiler is: the names of `sterna_runtime`, and what only models and targets can say."""

from sterna_runtime import Bundle, NodeTime, TensorSpec, cpu_has, hash64, load

__all__ = ["Bundle", "NodeTime", "TensorSpec", "cpu_has", "hash64", "load"]
