"""Pickles of tensors, read without running anything that they name.

A pickle is a program. Here its instructions are decoded by `pickletools` and only move data: what a pickle calls is
noted as a `Call`, never called, and a name stays a `Name`. What is made of these notes is decided by `tensors`, which
knows the few functions that PyTorch writes tensors with and refuses all others.
"""

from __future__ import annotations

import io
import pickletools
import struct
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.archives import member_content
from sterna.frontends.pytorch.tensors import BROKEN, check_member, strided
from sterna.ir import dtypes
from sterna.ir.graph import Array

MOST_INSTRUCTIONS = 10_000_000
LARGEST_PICKLE = 256 << 20  # bytes; weights stand beside it


@dataclass(frozen=True)
class Name:
    """A name of a module, which is not imported."""

    module: str
    name: str


@dataclass
class Call:
    """A call that the pickle asks for, and that is not made."""

    function: Any
    arguments: Any
    state: Any = None


@dataclass(frozen=True)
class Persistent:
    """A reference to something outside of the pickle."""

    key: Any


class _Mark:
    pass


_MARK = _Mark()
#: Instructions that put what they carry on the stack.
_NAMES = """
    INT LONG LONG1 LONG4 BININT BININT1 BININT2 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE
    SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
"""
_PLAIN = frozenset(_NAMES.split())


def decoded(content: bytes, where: str) -> Any:
    """What a pickle says, with calls, names and references as notes.

    Raises:
        SternaError: E0101, it is damaged or none.
    """
    with warnings.catch_warnings():
        # Texts with escapes that Python does not know are as good as any.
        warnings.simplefilter("ignore", DeprecationWarning)
        return _decoded(content, where)


def _decoded(content: bytes, where: str) -> Any:
    if len(content) > LARGEST_PICKLE:
        raise error("E0112", f"{where} is a pickle of {len(content)} bytes")
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def marked() -> list[Any]:
        last = len(stack) - 1
        while stack[last] is not _MARK:
            last -= 1
            if last < 0:
                raise ValueError("no mark")
        items = stack[last + 1 :]
        del stack[last:]
        return items

    try:
        for count, (code, argument, _) in enumerate(pickletools.genops(io.BytesIO(content))):
            op = code.name
            if count > MOST_INSTRUCTIONS:
                raise ValueError("too many instructions")
            if op in _PLAIN:
                stack.append(argument)
            elif op in ("PROTO", "FRAME"):
                pass
            elif op == "STOP":
                return stack.pop()
            elif op == "MARK":
                stack.append(_MARK)
            elif op in ("NONE", "NEWTRUE", "NEWFALSE"):
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[op])
            elif op in ("EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"):
                stack.append({"EMPTY_TUPLE": (), "EMPTY_LIST": [], "EMPTY_DICT": {}, "EMPTY_SET": []}[op])
            elif op == "TUPLE":
                stack.append(tuple(marked()))
            elif op in ("TUPLE1", "TUPLE2", "TUPLE3"):
                size = int(op[-1])
                last = tuple(stack[-size:])
                if len(last) < size:
                    raise ValueError("a tuple of too few")
                del stack[-size:]
                stack.append(last)
            elif op in ("LIST", "DICT"):
                items = marked()
                stack.append(items if op == "LIST" else _pairs(items))
            elif op == "APPEND":
                value = stack.pop()
                _list(stack[-1]).append(value)
            elif op in ("APPENDS", "ADDITEMS"):
                items = marked()
                _list(stack[-1]).extend(items)
            elif op == "SETITEM":
                value, key = stack.pop(), stack.pop()
                _entries(stack[-1])[key] = value
            elif op == "SETITEMS":
                items = marked()
                _entries(stack[-1]).update(_pairs(items))
            elif op == "GLOBAL":
                module, _, name = str(argument).partition(" ")
                stack.append(Name(module, name))
            elif op == "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                stack.append(Name(str(module), str(name)))
            elif op in ("REDUCE", "NEWOBJ"):
                arguments, function = stack.pop(), stack.pop()
                stack.append(Call(function, arguments))
            elif op == "BUILD":
                state = stack.pop()
                if isinstance(stack[-1], Call):
                    stack[-1].state = state
            elif op == "BINPERSID":
                stack.append(Persistent(stack.pop()))
            elif op in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[int(str(argument))] = stack[-1]
            elif op == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif op in ("GET", "BINGET", "LONG_BINGET"):
                stack.append(memo[int(str(argument))])
            elif op == "POP":
                stack.pop()
            elif op == "POP_MARK":
                marked()
            elif op == "DUP":
                stack.append(stack[-1])
            else:
                raise ValueError(f"the instruction {op}")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error, RecursionError) as problem:
        raise error("E0101", f"{where} is a damaged pickle", f"{type(problem).__name__}: {problem}") from None
    raise error("E0101", f"{where} is a pickle without an end")


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def _entries(value: Any) -> dict[Any, Any]:
    """Where a mapping that is written entry by entry keeps them."""
    if isinstance(value, Call):
        value.state = value.state if isinstance(value.state, dict) else {}
        held: dict[Any, Any] = value.state
        return held
    if not isinstance(value, dict):
        raise TypeError("no mapping")
    return value


# ---------------------------------------------------------------- tensors
_STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool",
}  # fmt: skip
_REBUILD = {"_rebuild_tensor_v2", "_rebuild_tensor"}
#: What makes a tensor of a class of its own.
_SUBCLASS = Name("torch._tensor", "_rebuild_from_type_v2")
_HOLDERS = {"_rebuild_parameter", "_rebuild_parameter_with_state"}


def saved_tensors(content: bytes, where: str) -> dict[str, Array]:
    """The tensors of a file that `torch.save` wrote: by the keys of a mapping, or one alone as "".

    Raises:
        SternaError: E0101, it is none; E0111, it holds something else than tensors; E0112, it is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = {name.partition("/")[2]: name for name in archive.namelist()}
            if "data.pkl" not in names:
                raise error("E0101", f"{where} holds no data.pkl", "it is no file that torch.save wrote")
            parts = {}
            for name in ("data.pkl", "byteorder"):
                if name in names:
                    member = archive.getinfo(names[name])
                    check_member(member, where, LARGEST_PICKLE)
                    parts[name] = member_content(archive, member)
            reader = _Saved(archive, names, where, ">" if parts.get("byteorder") == b"big" else "<")
            return reader.tensors(decoded(parts["data.pkl"], where))
    except BROKEN as problem:
        raise error("E0101", f"{where} is no file that torch.save wrote", str(problem)) from None


class _Saved:
    def __init__(self, archive: zipfile.ZipFile, names: Mapping[str, str], where: str, order: str):
        self.archive, self.names, self.where, self.order = archive, names, where, order
        self.storages: dict[str, Array] = {}

    def tensors(self, value: Any) -> dict[str, Array]:
        if isinstance(value, Call) and value.function in (
            Name("collections", "OrderedDict"), Name("torch", "nn.parameter.ParameterDict")
        ):  # fmt: skip
            entries = dict(value.arguments[0]) if isinstance(value.arguments, tuple) and value.arguments else {}
            state = value.state if isinstance(value.state, dict) else {}
            value = {**entries, **{k: v for k, v in state.items() if k != "_metadata"}}
        if isinstance(value, dict):
            return {str(key): self.tensor(item) for key, item in value.items()}
        return {"": self.tensor(value)}

    def tensor(self, value: Any) -> Array:
        if not isinstance(value, Call) or not isinstance(value.function, Name):
            raise error("E0111", f"{self.where} holds {type(value).__name__} in place of a tensor")
        function, arguments = value.function, value.arguments
        if function.module != "torch._utils" or not isinstance(arguments, tuple):
            raise self.refused(function)
        if function.name in _HOLDERS and arguments:
            return self.tensor(arguments[0])
        if function.name not in _REBUILD or len(arguments) < 4:
            raise self.refused(function)
        storage, offset, sizes, strides = arguments[:4]
        return strided(self.storage(storage), sizes, strides, offset, self.where)

    def refused(self, function: Name) -> Exception:
        title = f"{self.where} asks to run {function.module}.{function.name}, which is not done"
        fix = "save the model with plain tensors"
        if function == _SUBCLASS:
            fix = "save program.run_decompositions(), whose weights are plain tensors, as those of torchao are not"
        return error("E0111", title, "only plain tensors are read from pickles", fix=fix)

    def storage(self, reference: Any) -> Array:
        key = reference.key if isinstance(reference, Persistent) else None
        if not isinstance(key, tuple) or len(key) != 5 or not isinstance(key[1], Name):
            raise error("E0101", f"{self.where} is a damaged pickle", "a tensor without a storage")
        kind, name = key[1].name, str(key[2])
        dtype = _STORAGES.get(kind)
        if dtype is None:
            raise error("E0111", f"{self.where} holds a tensor of {kind}, which is not supported")
        if name not in self.storages:
            member = self.names.get(f"data/{name}")
            if member is None:
                raise error("E0101", f"{self.where} lacks data/{name}")
            info = self.archive.getinfo(member)
            check_member(info, self.where)
            data = member_content(self.archive, info)
            kind_of = dtypes.to_numpy(dtype)
            count = len(data) // kind_of.itemsize
            wide = np.frombuffer(data, kind_of, count)
            self.storages[name] = wide.byteswap() if self.order == ">" and kind_of.itemsize > 1 else wide
        return self.storages[name]
