"""Tensor expressions: what a kernel computes, apart from how."""
