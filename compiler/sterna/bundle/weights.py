"""The weights of a firmware bundle as a program takes them: an array of C, `params.bin` by an assembler's `.incbin`, or
`params.bin` at an address of its own, as in flash outside the processor that is read in place.
"""

from __future__ import annotations

from dataclasses import dataclass

from sterna.codegen.render import render_template
from sterna.compiled import Compiled
from sterna.options import Options
from sterna_runtime import hash64

#: Up to how many bytes weights are an array unless it is said. C takes five characters and more for each, and compilers
#: a second and hundreds of megabytes for a million of them.
MOST_ARRAY_BYTES = 1 << 20

ARRAY, ASSEMBLER, SCRIPT = "params.c", "params.S", "params.ld"


@dataclass(frozen=True)
class Weights:
    """How the weights come into a program.

    Args:
        source: what is compiled, "" where nothing is; script: what is linked in its place, "" where nothing is.
        address: at which a program finds them; None: wherever they are linked.
        section: that they are put into; "": among other constants.
    """

    source: str
    script: str
    address: int | None
    section: str

    @property
    def linked(self) -> bool:
        """Whether the program has them, rather than their address alone."""
        return bool(self.source)

    @property
    def option(self) -> str:
        """For GNU ld and LLVM's, which puts the section to the address; "" where there is no such thing."""
        return (
            f"--section-start={self.section}={self.address:#010x}" if self.linked and self.address is not None else ""
        )


def weights_of(options: Options, size: int) -> Weights:
    """How weights of so many bytes are given: as a target whose compiler is not known takes them, an array, unless it
    is said."""
    address, section = options.weights_address, options.weights_section or ""
    if address is not None:
        return Weights(ASSEMBLER, "", address, section) if section else Weights("", SCRIPT, address, "")
    most = options.weights_array
    if most is None:
        most = MOST_ARRAY_BYTES if options.target.llvm_triple else size
    return Weights(ARRAY if size <= most else ASSEMBLER, "", None, section)


def weights_files(compiled: Compiled) -> dict[str, bytes]:
    """params.bin, and the files that bring it into a program."""
    options, data = compiled.options, compiled.params or b"\0"
    how = weights_of(options, len(data))
    files = {"params.bin": data}
    values = {"model": compiled.model, "section": how.section, "address": how.address}
    if how.source == ARRAY:
        rows = [", ".join(str(b) for b in data[i : i + 32]) for i in range(0, len(data), 32)]
        files[ARRAY] = render_template("c/params.c.j2", rows=rows, **values).encode()
    elif how.source:
        files[ASSEMBLER] = assembler_source(
            compiled.model, data, options.target.alignment, section=options.weights_section
        ).encode()
    if how.script:
        files[SCRIPT] = render_template("c/params.ld.j2", **values).encode()
    return files


def assembler_source(
    model: str, data: bytes, alignment: int, file: str = "params.bin", section: str | None = None
) -> str:
    """`params.S`: a file's bytes as the weights, for the assemblers of gcc and clang that write ELF.

    Args:
        file: by its name, which is looked for where `-I` says, or its path.
    """
    quoted = file.replace("\\", "\\\\").replace('"', '\\"')
    place = section or f".rodata.{model}_params"
    return render_template(
        "c/params.S.j2", model=model, size=len(data), hash=hash64(data), alignment=alignment, file=quoted, section=place
    )
