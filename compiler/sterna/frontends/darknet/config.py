"""DarkNet's description of a network: sections in brackets, `key=value`, comments from `#` or `;` on."""

from __future__ import annotations

from dataclasses import dataclass, field

from sterna.errors import error

MOST_BYTES = 4 << 20
NETWORK = ("net", "network")
#: What sections are also called.
_ALIASES = {
    "conv": "convolutional", "deconv": "deconvolutional", "conn": "connected", "max": "maxpool", "avg": "avgpool",
    "soft": "softmax", "lrn": "normalization", "local_avg": "local_avgpool",
    "silence": "empty",
}  # fmt: skip


@dataclass
class Section:
    """A section: a layer, or the network's own.

    Attributes:
        used: keys that were asked for.
    """

    kind: str
    line: int
    values: dict[str, str]
    number: int = -1
    used: set[str] = field(default_factory=set)

    @property
    def place(self) -> str:
        return f"layer {self.number}, [{self.kind}] in line {self.line}" if self.number >= 0 else f"[{self.kind}]"

    def has(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: str = "") -> str:
        self.used.add(key)
        return self.values.get(key, default)

    def integer(self, key: str, default: int = 0) -> int:
        """A setting as C's atoi reads it.

        Raises:
            SternaError: E0109, it does not begin with a number, or is out of all bounds.
        """
        return int(self.number_of(key, float(default)))

    def number_of(self, key: str, default: float = 0.0) -> float:
        text = self.text(key)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            raise error("E0109", f'{key} is "{text}", not a number') from None
        if not abs(value) < 1e9:
            raise error("E0109", f"{key} is {text}")
        return value

    def positive(self, key: str, default: int = 1) -> int:
        value = self.integer(key, default)
        if not 1 <= value <= 1 << 20:
            raise error("E0109", f"{key} is {value}; it must be at least 1")
        return value

    def integers(self, key: str) -> list[int]:
        """A list with commas."""
        text = self.text(key)
        try:
            return [int(float(part)) for part in text.split(",") if part.strip()]
        except (ValueError, OverflowError):
            raise error("E0109", f'{key} is "{text}", not a list of numbers') from None


def parse(content: bytes) -> tuple[Section, list[Section]]:
    """The network's section and its layers, in order.

    Raises:
        SternaError: E0103, it is no such description.
    """
    if len(content) > MOST_BYTES:
        raise error("E0103", f"the description has {len(content)} bytes, more than {MOST_BYTES}")
    sections: list[Section] = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        text = "".join(line.split())
        if not text or text[0] in "#;":
            continue
        if text[0] == "[":
            kind = text[1:].split("]")[0].lower()
            sections.append(Section(_ALIASES.get(kind, kind), number, {}))
            continue
        if not sections or "=" not in text:
            title = f'line {number} is no setting of a section: "{line.strip()[:40]}"'
            raise error("E0103", title, fix="write key=value below a [section]")
        key, value = text.split("=", 1)
        sections[-1].values[key] = value.split("#")[0].split(";")[0]
    if not sections or sections[0].kind not in NETWORK:
        fix = "name the .cfg file of the network, which begins with [net]"
        raise error("E0103", "the description does not begin with [net]", fix=fix)
    for number, section in enumerate(sections[1:]):
        section.number = number
    if len(sections) < 2:
        raise error("E0103", "the network has no layers")
    return sections[0], sections[1:]
