"""The JavaScript runtime as one module: a page then asks for one file, where imports lie five files deep.

Modules are written one after the other. One that declares or imports a name which another has already becomes a
function that is called once: its imports are the parameters, its exports the result. So a module's names are its own,
and minifiers see most of them as of one module. The runtime's sources are plain: an import or an export stands on a
line of its own, what is exported does not change, and no module imports itself on the way, as a test of them all does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_FROM = r'(?P<what>\w+|\{[^}]*\}) from "(?P<module>\.{1,2}/[\w./-]+)\.js";\n'
_IMPORT = re.compile(rf"^import {_FROM}", re.M)
_EXPORT_FROM = re.compile(rf"^export {_FROM}", re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const|class)", re.M)
_DEFAULT = re.compile(r"^export default ", re.M)
_DECLARED = re.compile(r"^(?:async )?(?:function\*?|class|let|const) (\w+)", re.M)
_NUMBERS = re.compile(r"^const \w+ = [^,;(={[\n]+((?:, \w+ = [^,;(={[\n]+)+);", re.M)
_DOCUMENTATION = re.compile(r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n|/\*\*(?:[^*]|\*(?!/))*\*/ ?", re.M)


@dataclass(frozen=True)
class OneModule:
    """The text of modules that are one now; `exports`: what the text calls that which the entry exports."""

    text: str
    exports: Mapping[str, str]


def one_module(folder: Path, name: str) -> OneModule:
    """A module of the runtime with all that it imports, without documentation and exports."""
    writer = _Writer(folder)
    writer.write(name)
    return OneModule("\n".join(writer.texts), writer.exports[name])


@dataclass
class _Writer:
    """Args:
    taken: names that are declared so far.
    exports: of every module that is written, what its exports are called.
    """

    folder: Path
    texts: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    exports: dict[str, dict[str, str]] = field(default_factory=dict)

    def write(self, name: str) -> None:
        """Writes what a module imports, then the module."""
        if name in self.exports:
            return
        text = (self.folder / f"{name}.js").read_text("utf-8")
        imports = dict(self._named(name, _IMPORT, text))
        passed_on = dict(self._named(name, _EXPORT_FROM, text))
        text = _DOCUMENTATION.sub("", _EXPORT_FROM.sub("", _IMPORT.sub("", text)))
        own = _variable(name)
        exported = {found: found for found in _declared("".join(_exports(text)))}
        if _DEFAULT.search(text):
            exported["default"] = own
        text = _EXPORT.sub("", _DEFAULT.sub(f"const {own} = ", text)).strip()
        others = {local: known for local, known in imports.items() if local != known}
        names = [*_declared(text), *others]
        if self.taken.isdisjoint(names):
            self.taken.update(names)
            renamed = [f"const {local} = {known};\n" for local, known in others.items()]
            self.texts += ["".join([*renamed, text]) + "\n"] if text else []
        else:
            self.texts.append(_function(own, imports, text, exported))
            exported = {found: f"{own}.{found}" for found in exported}
        self.exports[name] = {**exported, **passed_on}

    def _named(self, importer: str, line: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
        """What lines name of other modules: the name there, and what it is called."""
        for found in line.finditer(text):
            module = posixpath.normpath(posixpath.join(posixpath.dirname(importer), found["module"]))
            self.write(module)
            what = found["what"]
            for member in what.strip("{} ").split(", ") if what.startswith("{") else [f"default as {what}"]:
                theirs, _, ours = member.partition(" as ")
                yield ours or theirs, self.exports[module][theirs]


def _variable(module: str) -> str:
    """A name that belongs to a module: none in the runtime begins like that."""
    return "$" + re.sub(r"\W", "_", module)


def _exports(text: str) -> Iterator[str]:
    """The lines of declarations that are exported, without that word."""
    for found in _EXPORT.finditer(text):
        yield text[found.end() : text.index("\n", found.end()) + 1]


def _declared(text: str) -> list[str]:
    """The names that a module's lines declare."""
    further = [name for found in _NUMBERS.finditer(text) for name in re.findall(r", (\w+) = ", found[1])]
    return [*_DECLARED.findall(text), *further]


def _function(own: str, imports: Mapping[str, str], text: str, exported: Mapping[str, str]) -> str:
    """A module as what a function returns."""
    given = ", ".join(name if name == local else f"{name}: {local}" for name, local in exported.items())
    head, tail = ", ".join(imports), ", ".join(imports.values())
    return f"const {own} = (({head}) => {{\n{text}\nreturn {{ {given} }};\n}})({tail});\n"
