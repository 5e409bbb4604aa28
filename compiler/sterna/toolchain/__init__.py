"""Compilers and linkers: from C source or objects to the kernel library of a bundle, checked and cached."""
