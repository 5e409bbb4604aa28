"""Layouts of the records that pass between kernels, runtimes and programs, for pointers of 4 and of 8 bytes.

Named tuples, which take half as long to declare as dataclasses: `import sterna` waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sterna_runtime.abi import ALIGNMENT, LABELLED_OUTPUTS, MESSAGE_BYTES

#: Kind of a member -> (how C declares it, bytes; 0: those of a pointer).
KINDS = {
    "u32": ("uint32_t {}", 4),
    "i32": ("int32_t {}", 4),
    "i64": ("int64_t {}", 8),
    "size": ("size_t {}", 0),
    "status": ("sterna_status {}", 4),
    "text": ("const char *{}", 0),
    "texts": ("const char *const *{}", 0),
    "bytes": ("const uint8_t *{}", 0),
    "i32s": ("const int32_t *{}", 0),
    "i64s": ("const int64_t *{}", 0),
    "f32s": ("const float *{}", 0),
    "address": ("void *{}", 0),
    "pointer": ("", 0),  # of a kind that `c` spells
    "message": (f"char {{}}[{MESSAGE_BYTES}]", MESSAGE_BYTES),
}


class Member(NamedTuple):
    """A member of a record.

    Args:
        kind: one of `KINDS`.
        comment: behind the declaration; above: lines before it.
        c: the declaration, where the kind does not say it.
    """

    name: str
    kind: str
    comment: str = ""
    above: str = ""
    c: str = ""

    @property
    def declaration(self) -> str:
        """As C has it, without the semicolon."""
        return self.c or KINDS[self.kind][0].format(self.name)

    def size(self, pointer: int) -> int:
        """Bytes, with pointers of so many."""
        return KINDS[self.kind][1] or pointer

    def alignment(self, pointer: int) -> int:
        return 1 if self.kind == "message" else self.size(pointer)


class Record(NamedTuple):
    """A structure of C.

    Args:
        name: as C has it.
        column: where comments begin; 0: behind the longest declaration that has one.
    """

    name: str
    members: tuple[Member, ...]
    column: int = 0

    def offsets(self, pointer: int) -> dict[str, int]:
        """Where each member begins, with pointers of 4 or 8 bytes, on machines that align numbers by their size."""
        offsets, at = {}, 0
        for member in self.members:
            at += -at % member.alignment(pointer)
            offsets[member.name] = at
            at += member.size(pointer)
        return offsets

    def size(self, pointer: int) -> int:
        """Bytes of the record."""
        last = self.members[-1]
        end = self.offsets(pointer)[last.name] + last.size(pointer)
        return end + -end % max(member.alignment(pointer) for member in self.members)

    def ordered(self, values: Mapping[str, str]) -> list[str]:
        """Values by member, in the order of the members, as initializers need them; 0 for those that are not given."""
        unknown = set(values) - {member.name for member in self.members}
        assert not unknown, f"{self.name} has no {unknown}"
        return [values.get(member.name, "0") for member in self.members]


CALL = Record(
    "sterna_call",
    (
        Member("size", "u32", "bytes of this record that the caller filled in"),
        Member("n_workers", "u32", "workers sharing this call, at least 1"),
        Member("in", "pointer", "one buffer per input value, element-aligned", c="const void *const *in"),
        Member("out", "pointer", "one buffer per output value, element-aligned", c="void *const *out"),
        Member("params", "bytes", f"this node's constants, {ALIGNMENT}-byte aligned; NULL if it has none"),
        Member(
            "scratch",
            "pointer",
            f"this worker's scratch, {ALIGNMENT}-byte aligned; NULL if none was asked for",
            c="uint8_t *scratch",
        ),
        Member("dims", "i64s", "actual sizes of the model's dimension symbols; NULL if it has none"),
        Member("worker", "u32", "0 .. n_workers - 1"),
        Member(
            "barrier",
            "pointer",
            "waits for all workers of this call; NULL unless the kernel needs it",
            c="void (*barrier)(void *pool)",
        ),
        Member("pool", "address", "argument of barrier"),
    ),
)

KERNEL = Record(
    "sterna_kernel",
    (
        Member("function", "pointer", c="sterna_kernel_fn function"),
        Member("n_tasks", "u32", "tasks of one call, at least 1"),
        Member("scratch_bytes", "u32", "per worker, or of all if the kernel needs barriers"),
        Member("flags", "u32", "STERNA_KERNEL_*"),
        Member("reserved", "u32"),
    ),
)

LIBRARY = Record(
    "sterna_library",
    (
        Member("size", "u32", "bytes of this record"),
        Member("abi", "u32", "STERNA_ABI the kernels were built for"),
        Member("n_kernels", "u32"),
        Member("reserved", "u32"),
        Member("kernels", "pointer", c="const sterna_kernel *kernels"),
        Member("features", "text", "CPU features the code needs, separated by spaces"),
    ),
    column=26,
)

ERROR = Record("sterna_error", (Member("status", "status"), Member("message", "message")))

FILE = Record(
    "sterna_file",
    (
        Member("name", "text", "as graph.json has it"),
        Member("data", "pointer", c="const void *data"),
        Member("bytes", "size"),
    ),
)

OPTIONS = Record(
    "sterna_options",
    (
        Member("size", "size", "sizeof(sterna_options): the record grows at the end"),
        Member("threads", "u32", "workers, including the caller: 0 or 1 makes no thread; at most 32 share a kernel"),
        Member("reserved", "u32"),
        Member("allocator", "pointer", "copied; NULL: the system's", c="const sterna_allocator *allocator"),
        Member("on_node", "pointer", "NULL: nothing is timed", c="sterna_on_node on_node"),
        Member("user", "address", "first argument of on_node"),
        Member("n_devices", "u32"),
        Member("reserved2", "u32"),
        Member("devices", "pointer", "n_devices of them; NULL: none", c="const sterna_device_api *const *devices"),
        Member("device_cache", "text", "folder for what drivers make of kernels, of this user alone; NULL: none"),
        Member("n_files", "u32"),
        Member("reserved3", "u32"),
        Member(
            "files",
            "pointer",
            "for sterna_load_table: n_files with kernels of devices; NULL: none",
            c="const sterna_file *files",
        ),
    ),
)

TENSOR = Record(
    "sterna_tensor",
    (
        Member("name", "text"),
        Member("dtype", "text", 'as in graph.json: "float32" ...'),
        Member("dtype_code", "u32", "the number in STERNA_DTYPES"),
        Member("rank", "u32"),
        Member(
            "dims", "i64s", "`rank` sizes; the model's, which change in sterna_set_dims, computed ones in sterna_run"
        ),
        Member("bytes", "size", "of the dense row-major tensor, at the sizes of this moment"),
        Member(
            "n_scales",
            "u32",
            above="What an input's or output's elements stand for, as far as the model says so; else 0 and NULL. An "
            "integer q stands\nfor scale * (q - zero_point): one of each for the whole tensor, or one for every index "
            "along `axis`. Element i of an\noutput stands for labels[i], such as the name of a class; of the first "
            f"{LABELLED_OUTPUTS} outputs.",
        ),
        Member("axis", "u32"),
        Member("scales", "f32s"),
        Member("zero_points", "i32s"),
        Member("labels", "texts"),
        Member("n_labels", "u32"),
    ),
)

DIM = Record(
    "sterna_dim",
    (
        Member("name", "text"),
        Member("lo", "i64", "the least size"),
        Member("hi", "i64", "the greatest"),
        Member("size", "i64", "now; `hi` after loading"),
        Member("computed", "i32", "not 0: by the model while it runs"),
    ),
)

NODE = Record(
    "sterna_node",
    (
        Member("name", "text"),
        Member("kernel", "text"),
        Member("tasks", "u32", "at the sizes of this moment"),
    ),
)

MEMORY = Record(
    "sterna_memory",
    (Member("arena", "size"), Member("scratch", "size"), Member("signature", "size"), Member("params", "size")),
)

#: Of the kernel ABI, and of the C runtime's interface.
KERNEL_RECORDS = (CALL, KERNEL, LIBRARY)
RUNTIME_RECORDS = (ERROR, FILE, OPTIONS, TENSOR, DIM, NODE, MEMORY)
