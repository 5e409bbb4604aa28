"""What a name may be: of a file in a bundle, of a model, of a thing in C. Every reader and writer asks here.

Tensors, dimensions and nodes have the names that their model gives them, any text: it is escaped where it is shown
(`escape`). The runtimes have these rules too, in runtime_c/src/manifest.c and
runtime_js/src/graph.js.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from sterna_runtime.abi import MAX_NAME_BYTES

_IDENTIFIER = re.compile(rf"\w{{1,{MAX_NAME_BYTES}}}", re.ASCII)
_FILE = re.compile(rf"\w[\w.-]{{0,{MAX_NAME_BYTES - 1}}}", re.ASCII)
#: Windows takes these for devices, whatever stands after a dot.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_DIGITS = 16

#: Words that a program may not use for its own: of C and C++, and what compilers define without an underscore.
_TAKEN = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq i386 linux unix near far errno stdin stdout stderr null
    """.split()  # noqa: SIM905 (a hundred quoted words are harder to read)
)


def is_file_name(name: object) -> bool:
    """Whether a file of a bundle may be called so: a name on every system, and not a path."""
    return isinstance(name, str) and bool(_FILE.fullmatch(name)) and not _DEVICE.fullmatch(name) and name[-1] != "."


def is_identifier(name: object) -> bool:
    """Whether a model may be called so: the library's symbol is made of it."""
    return isinstance(name, str) and bool(_IDENTIFIER.fullmatch(name))


def is_c_name(name: object) -> bool:
    """Whether something in C may be called so that a description of the user's names."""
    return is_identifier(name) and isinstance(name, str) and not (name[0].isdigit() or name[0] == "_" or name in _TAKEN)


def model_name(path: str) -> str:
    """A C identifier for a model, from its file's name: at most 127 characters, lower case.

    Two long names that begin alike stay apart by a hash. A name is never one with which something else begins: no word
    of C (`int` and a tensor `least8` would make `int_least8_t`), and not `sterna`, as the runtime's functions do.
    """
    stem = Path(path).stem
    name = "".join(ch if ch.isascii() and (ch.isalnum() or ch == "_") else "_" for ch in stem).strip("_").lower()
    if not name or name[0].isdigit() or name in _TAKEN or name.startswith(("sterna", "uint")):
        name = f"model_{name}".rstrip("_")
    return _cut(name, MAX_NAME_BYTES, stem)


def identifiers(names: list[str]) -> list[str]:
    """Different C identifiers in lower case for tensors: letters, digits and underscores, no word of C or C++."""
    made: list[str] = []
    for name in names:
        identifier = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "tensor"
        identifier = f"t_{identifier}" if identifier[0].isdigit() else identifier
        identifier = _cut(f"{identifier}_" if identifier in _TAKEN else identifier, MAX_NAME_BYTES - 32, name)
        while identifier in made:
            identifier += "_"
        made.append(identifier)
    return made


def _cut(name: str, most: int, whole: str) -> str:
    """The name, or as much of it as there is room for, and a hash of all."""
    if len(name) <= most:
        return name
    digits = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[: most - _DIGITS - 1].rstrip('_')}_{digits}"
