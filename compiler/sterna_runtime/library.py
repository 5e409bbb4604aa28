"""The C runtime as a shared library: finding it, and its functions through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from ctypes import POINTER, c_char, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from sterna_runtime.abi import MESSAGE_BYTES, records
from sterna_runtime.abi.records import Record
from sterna_runtime.errors import error
from sterna_runtime.recipe import library_name

_PACKAGE = Path(__file__).resolve().parent


#: Kind of a member (`abi.records`) -> its type here.
_TYPES = {
    "u32": c_uint32, "i32": c_int32, "i64": c_int64, "size": c_size_t, "status": c_int32, "text": c_char_p,
    "texts": POINTER(c_char_p), "bytes": c_void_p, "i32s": POINTER(c_int32), "i64s": POINTER(c_int64),
    "f32s": POINTER(c_float), "address": c_void_p, "pointer": c_void_p, "message": c_char * MESSAGE_BYTES,
}  # fmt: skip


def _fields(record: Record) -> tuple[tuple[str, Any], ...]:
    return tuple((member.name, _TYPES[member.kind]) for member in record.members)


class CError(ctypes.Structure):
    """sterna_error"""

    _fields_ = _fields(records.ERROR)


ON_NODE = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_char_p, c_uint64)
"""sterna_on_node"""


class CFile(ctypes.Structure):
    """sterna_file"""

    _fields_ = _fields(records.FILE)


class COptions(ctypes.Structure):
    """sterna_options"""

    _fields_ = _fields(records.OPTIONS)


class CTensor(ctypes.Structure):
    """sterna_tensor"""

    _fields_ = _fields(records.TENSOR)


class CNode(ctypes.Structure):
    """sterna_node"""

    _fields_ = _fields(records.NODE)


class CMemory(ctypes.Structure):
    """sterna_memory"""

    _fields_ = _fields(records.MEMORY)


class CDim(ctypes.Structure):
    """sterna_dim"""

    _fields_ = _fields(records.DIM)


_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "sterna_load": (c_int32, (c_char_p, POINTER(COptions), POINTER(c_void_p), POINTER(CError))),
    "sterna_unload": (None, (c_void_p,)),
    "sterna_run": (c_int32, (c_void_p,)),
    "sterna_reset_state": (c_int32, (c_void_p,)),
    "sterna_last_error": (POINTER(CError), (c_void_p,)),
    "sterna_set_on_node": (None, (c_void_p, c_void_p, c_void_p)),
    "sterna_input_count": (c_uint32, (c_void_p,)),
    "sterna_output_count": (c_uint32, (c_void_p,)),
    "sterna_value_count": (c_uint32, (c_void_p,)),
    "sterna_node_count": (c_uint32, (c_void_p,)),
    "sterna_input_info": (c_int32, (c_void_p, c_uint32, POINTER(CTensor))),
    "sterna_output_info": (c_int32, (c_void_p, c_uint32, POINTER(CTensor))),
    "sterna_value_info": (c_int32, (c_void_p, c_uint32, POINTER(CTensor))),
    "sterna_node_info": (c_int32, (c_void_p, c_uint32, POINTER(CNode))),
    "sterna_memory_info": (c_int32, (c_void_p, POINTER(CMemory))),
    "sterna_input_buffer": (c_void_p, (c_void_p, c_uint32)),
    "sterna_output_buffer": (c_void_p, (c_void_p, c_uint32)),
    "sterna_bind_input": (c_int32, (c_void_p, c_uint32, c_void_p)),
    "sterna_bind_output": (c_int32, (c_void_p, c_uint32, c_void_p)),
    "sterna_value_copy": (c_int32, (c_void_p, c_uint32, c_void_p, c_size_t)),
    "sterna_dim_count": (c_uint32, (c_void_p,)),
    "sterna_dim_info": (c_int32, (c_void_p, c_uint32, POINTER(CDim))),
    "sterna_set_dims": (c_int32, (c_void_p, POINTER(c_int64), c_uint32)),
    "sterna_model_name": (c_char_p, (c_void_p,)),
    "sterna_version": (c_char_p, ()),
    "sterna_status_code": (c_char_p, (c_int,)),
    "sterna_cpu_has": (c_int, (c_char_p,)),
    "sterna_hash64": (c_uint64, (c_char_p, c_size_t)),
}


def find(kind: str = "") -> Path:
    """The runtime's shared library: the wheel's, or in a source checkout one built from runtime_c. With a `kind`, the
    library that drives such devices.

    Raises E0521 if there is neither a library nor its sources, E0401 if it cannot be built.
    """
    installed = _PACKAGE / "_lib" / library_name(kind=kind)
    if installed.is_file():
        return installed
    from sterna_runtime.building import build, runtime_sources  # noqa: PLC0415 (an installed package never needs it)

    sources = runtime_sources()
    if sources is None:
        raise error(
            "E0521",
            "the C runtime is missing from this installation",
            str(installed),
            fix=f"pip install --force-reinstall {_wheel()}",
        )
    return build(sources, kind)


def _wheel() -> str:
    """The wheel that this package came with: the compiler's brings it along."""
    return "sterna" if (_PACKAGE.parent / "sterna").is_dir() else "sterna-runtime"


_replaced: ContextVar[Any] = ContextVar("sterna_functions", default=None)


@contextlib.contextmanager
def replaced_by(functions: Any) -> Iterator[None]:
    """Within it, `load` returns these functions: bundles that are loaded then run elsewhere, such as in an emulator."""
    token = _replaced.set(functions)
    try:
        yield
    finally:
        _replaced.reset(token)


def is_replaced() -> bool:
    """Whether bundles are loaded elsewhere."""
    return _replaced.get() is not None


def load() -> Any:
    """The runtime's functions, with their types set."""
    return _replaced.get() or here()


@functools.cache
def here() -> ctypes.CDLL:
    """The functions of the runtime in this process. Loaded once."""
    path = find()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as reason:
        raise error("E0521", f"the C runtime cannot be loaded: {reason}", str(path)) from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def hash64(data: bytes) -> str:
    """XXH64 with seed 0 as 16 lower-case hex digits: the hash of a bundle's files (docs/bundle.md)."""
    return f"{load().sterna_hash64(data, len(data)):016x}"


def cpu_has(feature: str) -> bool | None:
    """Whether this machine has a CPU feature, by LLVM's name for it; None if the runtime does not know the name."""
    found: int = load().sterna_cpu_has(feature.encode())
    return None if found < 0 else bool(found)
