"""What each file of a bundle is for."""

from __future__ import annotations

_ROLES = {
    "graph.json": "graph and signature",
    "firmware.json": "signature for tools",
    "params.bin": "weights",
    "model.h": "C header",
    "model.c": "the graph as C",
    "params.c": "weights as C",
    "params.S": "weights, from params.bin",
    "params.ld": "address of the weights",
    "kernels.c": "source of the kernels",
    "kernels.cl": "kernels of the device, OpenCL C",
    "kernels.ptx": "kernels of the device, PTX",
    "kernels.metal": "kernels of the device, Metal",
    "kernels.wgsl": "kernels of the device, WGSL",
    "strings.json": "strings by number",
    "golden.json": "golden sets: names and sizes",
    "golden.bin": "golden sets: arrays",
}


def file_role(name: str, whole: bool = False) -> str:
    """In a few words, "" of a file that no bundle has.

    Args:
        whole: the bundle is one file, the kernel library with all else in it.
    """
    library = "kernels, graph and weights" if whole else "kernels"
    return _ROLES.get(name, library if name.startswith("model.") else "")
