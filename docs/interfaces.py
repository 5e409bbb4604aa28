"""Markdown pages of the C and JavaScript interfaces, from the comments in their sources. The docs site shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# ---- C ----

_C_COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
_C_SECTION = re.compile(r"/\* ---- (.*?) ----\s*(.*?)\*/", re.S)
_C_NAME = re.compile(
    r"(?:^|\s)\*?(sterna_\w+)\(|\}\s*(sterna_\w+);|typedef struct \w+ (sterna_\w+);|\(\*(sterna_\w+)\)\("
    r"|^#define (STERNA_\w+)",
    re.M,
)


def c_page(header: Path = ROOT / "runtime_c" / "include" / "sterna.h") -> str:
    """What a C header declares: its introduction, then a heading for every group of declarations with their comment."""
    text = header.read_text("utf-8")
    introduction, _, rest = text.partition("#ifndef STERNA_H")
    lines = [_comment_text(introduction.strip()), ""]
    body = rest.partition('extern "C" {\n#endif')[2].rpartition("#ifdef __cplusplus")[0]
    for block in map(str.strip, re.split(r"\n\s*\n", body)):
        section = _C_SECTION.match(block)
        if section is None:
            lines += _c_block(block)
            continue
        title, _, more = section[1].partition(". ")
        lines += [f"## {title}", "", *((more, "") if more else ())]
        comment = f"/* {section[2]}*/" if section[2].strip() else ""
        lines += _c_block(f"{comment}\n{block[section.end() :]}".strip())
    return "\n".join(lines).rstrip() + "\n"


def _c_block(block: str) -> Iterator[str]:
    comment, code = "", block
    if match := _C_COMMENT.match(block):
        comment, code = _comment_text(match[0]), block[match.end() :].strip()
    code = code.replace("STERNA_API ", "")
    names = list(dict.fromkeys(next(filter(None, found)) for found in _C_NAME.findall(_C_COMMENT.sub("", code))))
    if code:
        yield from (f"### {', '.join(names)}", "") if names else ()
        yield from ("```c", code, "```", "")
    if comment:
        yield from (comment, "")


def _comment_text(comment: str) -> str:
    """The text of a block comment; lines that are indented stay code, those with a dash a list."""
    inner = comment.strip().removeprefix("/*").removesuffix("*/")
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in inner.split("\n")]
    text = "\n".join(
        [
            "" if line.strip() == "*" else line.replace("  ", "    ", 1) if line.startswith("  ") else line
            for line in lines
        ]
    )
    text = re.sub(r"\n(- )", r"\n\n\1", text.strip(), count=1)
    return (
        re.sub(r"(?<![`\w])(sterna_\w+|STERNA_\w+|\*out\b)(?![`\w(;])", r"`\1`", text) if "    " not in text else text
    )


# ---- JavaScript ----

_JS_DOC = re.compile(r"^( *)/\*\*(.*?)\*/\n((?:\1[^\n]*\n?))", re.S | re.M)
_JS_CLASS = re.compile(r"^(?:export )?class (\w+)", re.M)
_JS_TAG = re.compile(r"(?:^|\s)@(\w+)\s*(.*?)(?=\s@|\Z)", re.S)
_JS_TYPED = re.compile(r"^\{((?:[^{}]|\{[^{}]*\})*)\}\s*(\[?\w+\]?(?=[\s]|$))?\s*(.*)$", re.S)
_JS_METHOD = re.compile(r"(static |async |get )*[a-z]\w*\(")


@dataclass(frozen=True)
class Module:
    """An entry point of the npm package: what it exports, by file."""

    name: str
    exports: dict[str, tuple[str, ...]]
    constructed: tuple[str, ...] = ()
    """Classes of which users make objects with `new`."""


JS_MODULES = (
    Module("sterna", {"model.js": ("Model",), "errors.js": ("SternaError",)}),
    Module("sterna/worker", {"worker.js": ("Model",)}),
    Module("sterna/webgpu", {"webgpu.js": ("Model",)}),
    Module("sterna/inspect", {"inspect.js": ("plan", "tensor")}),
    Module("sterna/strings", {"strings.js": ("Strings",)}, constructed=("Strings",)),
)
#: Files whose named types the page shows -> types that users never see.
JS_TYPES: dict[str, tuple[str, ...]] = {
    "tensors.js": (),
    "model.js": ("Parts",),
    "load.js": ("Opened", "Take"),
    "inspect.js": (),
    "strings.js": (),
}
_JS_IMPORTED = re.compile(r'import\("[^"]*"\)\.\w+')


@dataclass(frozen=True)
class Doc:
    """A JSDoc comment: its text, its tags with their text, the line of code behind it, and the class around it."""

    text: str
    tags: tuple[tuple[str, str], ...]
    code: str
    owner: str | None

    @property
    def name(self) -> str:
        """Of the class, function or constant that is exported; else empty."""
        match = re.match(r"export (?:async )?(?:class|function\*?|const) (\w+)", self.code)
        return match[1] if match else ""

    def shown(self, names: tuple[str, ...], constructed: tuple[str, ...]) -> bool:
        """Whether the comment stands before something that users call, of these exports."""
        if self.owner is None:
            return self.name in names
        if self.owner not in names or any(tag == "private" for tag, _ in self.tags):
            return False
        made = self.code.startswith("constructor(")
        return self.owner in constructed if made else _JS_METHOD.match(self.code) is not None


def js_page(source: Path = ROOT / "runtime_js" / "src") -> str:
    """What the npm package exports, with its types."""
    lines: list[str] = []
    for module in JS_MODULES:
        lines += [f"## {module.name}", ""]
        for file, names in module.exports.items():
            for doc in _docs((source / file).read_text("utf-8")):
                if doc.shown(names, module.constructed):
                    lines += _js_entry(doc)
    lines += ["## Types", "", *_js_types(source)]
    return "\n".join(lines).rstrip() + "\n"


def _docs(text: str) -> Iterator[Doc]:
    classes = [(match.start(), match[1]) for match in _JS_CLASS.finditer(text)]
    for match in _JS_DOC.finditer(text):
        indent, comment, code = match.groups()
        plain = "\n".join(re.sub(r"^\s*\* ?", "", line) for line in comment.strip().split("\n")).strip()
        start = re.search(r"(?:^|\s)@\w", plain)
        words, rest = (plain[: start.start()], plain[start.start() :]) if start else (plain, "")
        tags = tuple((tag, " ".join(value.split())) for tag, value in _JS_TAG.findall(rest))
        before = [name for place, name in classes if place < match.start()]
        yield Doc(words.strip(), tags, code.strip(), before[-1] if indent and before else None)


def _js_entry(doc: Doc) -> Iterator[str]:
    signature = re.sub(r"^export |\s*\{$| extends .*$", "", doc.code)
    if doc.owner is not None:
        signature = re.sub(r"^static (async )?", f"{doc.owner}.", signature)
        signature = re.sub(r"^get (\w+)\(\)", r"\1", re.sub(r"^async ", "", signature))
        signature = signature.replace("constructor(", f"new {doc.owner}(")
    signature = re.sub(r"^(async )?function ", "", signature)
    yield from (f"{'####' if doc.owner else '###'} `{signature}`", "")
    if doc.text:
        yield from (doc.text, "")
    parts = []
    for tag, value in doc.tags:
        typed = _JS_TYPED.match(value)
        if tag in ("param", "returns") and typed is not None:
            kind, name, text = typed[1], typed[2] or "", typed[3]
            if tag == "returns":
                name, text = "", f"{name} {text}".strip()
            label = f"`{name}`" if tag == "param" else "Returns"
            parts.append(f"- {label}: `{_plain(kind)}`{': ' + text if text else ''}")
    if parts:
        yield from (*parts, "")


def _js_types(source: Path) -> Iterator[str]:
    for file, hidden in JS_TYPES.items():
        for doc in _docs((source / file).read_text("utf-8")):
            for tag, value in doc.tags:
                typed = _JS_TYPED.match(value)
                if tag != "typedef" or typed is None or typed[2] in hidden or _JS_IMPORTED.fullmatch(typed[1]):
                    continue
                text = f": {typed[3]}" if typed[3] else ""
                yield f"- `{typed[2]}` = `{_plain(typed[1])}`{text}"


def _plain(kind: str) -> str:
    return re.sub(r'import\("[^"]*"\)\.', "", kind)


PAGES = {"c": c_page, "javascript": js_page}
"""Name in a page's `<!-- interface NAME -->` -> the Markdown that takes its place."""
