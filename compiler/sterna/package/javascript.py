"""The JavaScript runtime as one module: a page then asks for one file, where imports lie five files deep.

The runtime's sources are plain: an import or an export stands on a line of its own, nothing is imported under another
name, and no two modules declare the same one. So modules are written one after the other, as a test of them all does.
"""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r'^import (?P<what>\w+|\{[^}]*\}) from "\./(?P<module>[\w-]+)\.js";\n', re.M)
_EXPORT_FROM = re.compile(r'^export \{[^}]*\} from "\./(?P<module>[\w-]+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.M)
_DOCUMENTATION = re.compile(r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n|/\*\*(?:[^*]|\*(?!/))*\*/ ?", re.M)


def one_module(folder: Path, name: str) -> str:
    """A module of the runtime with all that it imports, without documentation and exports."""
    written: dict[str, str] = {}
    _write(folder, name, None, written)
    return "\n".join(written.values())


def _write(folder: Path, name: str, default: str | None, written: dict[str, str]) -> None:
    """Writes what a module imports, then the module; `default`: what its importer calls its default export."""
    if name in written:
        return
    text = (folder / f"{name}.js").read_text("utf-8")
    for found in (*_IMPORT.finditer(text), *_EXPORT_FROM.finditer(text)):
        what = found.groupdict().get("what", "{}")
        _write(folder, found["module"], None if what.startswith("{") else what, written)
    text = _EXPORT_FROM.sub("", _IMPORT.sub("", text))
    text = _EXPORT.sub("", _DOCUMENTATION.sub("", text))
    written[name] = text.replace("export default ", f"const {default} = ").strip() + "\n"
