"""What a language of kernels must say for the printer to write loop programs in it.

The printer (`codegen/printer.py`) walks statements, values and positions. It knows braces, `if` and masks, and no
language. A dialect is data and small methods from text to text: types, literals, operations, memory accesses, the frame
of a kernel. Nothing asks which one it is. It collects what its text needs (helper functions, headers, intrinsics) for
the generator that writes the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from sterna.codegen.instructions import InstructionOperand, instruction_text, lowering
from sterna.codegen.tiles import TileOperation
from sterna.intrinsics import Intrinsic
from sterna.ir.memory import Memory
from sterna.ir.threads import ThreadAxis
from sterna.loops.program import Buffer, Function, Tiles
from sterna.loops.wide import Widths
from sterna.targets.target import Target


class Dialect(ABC):
    """A language of kernels. `lanes` is 1 for a scalar everywhere; without `vectors` nothing is asked for more.

    Of a vector of truth values the language has a mask: an integer vector as wide as what was compared, -1 for true.
    `bits` is that width.
    """

    #: By which a target asks for the dialect.
    name: str
    #: Whether a task may be run by several threads.
    threads: bool = False
    #: Whether the last of several tasks can tell that it is.
    last_tasks: bool = False
    #: The address spaces that pointers of the language reach, by LLVM's numbers.
    address_spaces: tuple[int, ...] = (0,)
    #: Words that nothing of a kernel can be called.
    reserved: frozenset[str] = frozenset()
    #: The types in which a call may bring sizes.
    arguments: tuple[str, ...] = ("int64",)
    #: The types that no value can have.
    lacks: frozenset[str] = frozenset()
    #: How many threads may hold a tile together.
    fragments: int = 1
    #: Whether vectors of the loop program are values of the language; else each lane is a scalar.
    vectors: bool
    #: What stands before a loop that stays rolled.
    rolled: str = ""
    #: By which intrinsics name their lowerings in the language; empty: they have none.
    lowerings: str = ""

    def __init__(self, target: Target):
        self.target = target
        #: The name of the kernel whose text is asked for.
        self.kernel = ""
        #: Intrinsics that the text calls, by name.
        self.intrinsics: dict[str, Intrinsic] = {}
        #: Headers, or extensions of the language, that the text needs.
        self.headers: set[str] = set()

    # ---- Types and declarations ----

    @property
    @abstractmethod
    def index_type(self) -> str:
        """The type of positions."""

    @abstractmethod
    def type(self, dtype: str, lanes: int = 1) -> str:
        """The type of a value other than a truth value."""

    @abstractmethod
    def truth_type(self, lanes: int, bits: int) -> str:
        """The type of a truth value, or of a mask."""

    @abstractmethod
    def variable(self, type_: str, name: str) -> str:
        """Declares a variable without a value."""

    @abstractmethod
    def constant(self, type_: str, name: str, value: str) -> str:
        """Declares a name for a value."""

    # ---- The frame of a kernel ----

    def begin(self, function: Function) -> None:
        """Notes what the text of a kernel depends on, before any of it is asked for."""
        self.kernel = function.name

    @abstractmethod
    def bind(self, buffer: Buffer, begin: str) -> str:
        """Declares the pointer to a buffer of the call record; `begin`: its slot, or offset, as a position."""

    @abstractmethod
    def dimension(self, slot: int, dtype: str) -> str:
        """The size of an open dimension, which the call record has in that type, as a position."""

    @abstractmethod
    def allocate(self, buffer: Buffer, begin: str, shared: bool) -> str:
        """Declares storage in scratch, on the stack or in what `memory` has declared, from an offset on; what is
        `shared` of scratch is written by other workers, too."""

    @abstractmethod
    def tasks(self, name: str, threaded: bool) -> str:
        """Opens the block that runs for every task that is handed out, with the task's number under that name; a task
        that is `threaded` is run by several threads."""

    @abstractmethod
    def loop(self, name: str, start: str, stop: str) -> str:
        """Opens a loop's block."""

    @abstractmethod
    def require(self, condition: str) -> str:
        """Leaves the kernel with KERNEL_FAILED unless the condition holds."""

    def prefetch(self, name: str, index: str) -> str:
        """Asks for the cache line of an element of a buffer; empty where the language cannot."""
        return ""

    @abstractmethod
    def barrier(self) -> str:
        """Waits for all workers of the call."""

    def fetch(self, to: str, at: str, size: int, asynchronous: bool) -> str:
        """Has the program around the kernels copy bytes from one address to another."""
        raise NotImplementedError(f"{self.name} has no fetches")

    def fetch_wait(self) -> str:
        """Waits until all that was asynchronous of these has ended."""
        raise NotImplementedError(f"{self.name} has no fetches")

    def thread(self, axis: ThreadAxis) -> str:
        """The number of the thread along an axis, as a position."""
        raise self._without_threads()

    def thread_barrier(self) -> str:
        """Waits for all threads of the task."""
        raise self._without_threads()

    def last_task(self, counter: str, count: int) -> str:
        """Whether this task is the last of so many, which are counted where a pointer says: as all of its threads see
        it, which wait for one another."""
        raise self._without_threads()

    def exchange(self, dtype: str, a: str, distance: int) -> str:
        """What a value of 32 or 64 bits is in the thread of the subgroup whose number differs in one bit."""
        raise self._without_threads()

    def memory(self, memory: Memory, nbytes: int) -> str:
        """Declares the part of one of the target's memories that a task takes, at the top of the kernel; empty where
        that stands elsewhere."""
        raise TypeError(f"the dialect {self.name} has no memories of the target")

    @abstractmethod
    def table(self, name: str, data: bytes) -> str:
        """Declares constant bytes."""

    # ---- Positions ----

    @abstractmethod
    def index_helper(self, operation: str, a: str, b: str) -> str:
        """`floor_div` or `mod` of a negative position, `min` or `max` of two."""

    @abstractmethod
    def index_cast(self, value: str, dtype: str) -> str:
        """An integer value as a position."""

    @abstractmethod
    def index_value(self, index: str, dtype: str, lanes: int, stride: int) -> str:
        """A position as a value; with lanes index, index + stride, ..."""

    # ---- Values ----

    @abstractmethod
    def const(self, value: bool | int | float, dtype: str, lanes: int = 1) -> str: ...

    @abstractmethod
    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        """`dtype` is the operand's."""

    @abstractmethod
    def binary(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str:
        """One of `te.expr.BINARY`; shifts by what may be the width or more are `shift_left_any`, `shift_right_any`."""

    @abstractmethod
    def compare(self, op: str, dtype: str, a: str, b: str, lanes: int) -> str: ...

    @abstractmethod
    def select(self, dtype: str, condition: str, a: str, b: str, lanes: int, bits: int) -> str: ...

    @abstractmethod
    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str: ...

    @abstractmethod
    def cast(self, source: str, dtype: str, a: str, lanes: int, bits: int) -> str:
        """Conversion as `te.expr.Cast` defines it; `bits` are those of a mask."""

    def nearest(self, dtype: str, a: str, zero: int, lanes: int) -> str:
        """The nearest bytes to a vector of float32, as `te.expr.Nearest` defines them."""
        raise self._without_vectors()

    @abstractmethod
    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str: ...

    def dot_of_words(self, intrinsic: Intrinsic, total: str, a: str, b: str) -> str:
        """A sum and the products of the bytes of two words."""
        raise NotImplementedError(f"{self.name} has no words of bytes")

    # ---- Memory ----

    @abstractmethod
    def load(
        self, dtype: str, base: str, index: str, lanes: int, stride: int, active: int | None, aligned: int = 1
    ) -> str:
        """Elements from a position on, whose address is a multiple of so many bytes as far as is known."""

    @abstractmethod
    def store(
        self, dtype: str, base: str, index: str, value: str, lanes: int, stride: int, active: int | None
    ) -> str: ...

    @abstractmethod
    def truth(self, byte: str, lanes: int) -> str:
        """The truth value, or mask, of bytes in memory."""

    @abstractmethod
    def byte(self, truth: str, lanes: int) -> str:
        """The bytes that a truth value, or mask, is in memory."""

    @abstractmethod
    def address(self, buffer: Buffer, index: str) -> str:
        """Where an element lies."""

    def instruction(self, intrinsic: Intrinsic, operands: Mapping[str, InstructionOperand]) -> str:
        """An intrinsic over memory, as a statement.

        Raises:
            SternaError: E0203, the target does not say how this language writes it.
        """
        found = lowering(intrinsic, self.lowerings, self.target)
        if found.header:
            self.headers.add(found.header)
        return instruction_text(found.text, operands)

    # ---- Wide accesses, of a dialect whose values are scalars ----

    @property
    def widths(self) -> Widths:
        """How wide an access is."""
        return Widths()

    def wide_type(self, dtype: str, lanes: int) -> str:
        """The type of what such an access takes."""
        raise self._without_vectors()

    def wide_lane(self, name: str, lane: int, dtype: str, lanes: int) -> str:
        """An element of a variable of that type, which has so many."""
        raise self._without_vectors()

    def wide_value(self, name: str, dtype: str, values: Sequence[str]) -> list[str]:
        """Statements that make a variable of that type of its elements."""
        assigned = (f"{self.wide_lane(name, n, dtype, len(values))} = {value};" for n, value in enumerate(values))
        return [self.variable(self.wide_type(dtype, len(values)), name), *assigned]

    def wide_place(self, buffer: Buffer, dtype: str, index: str, lanes: int) -> str:
        """Neighbours in memory, at a multiple of their bytes."""
        raise self._without_vectors()

    def wide_store(self, buffer: Buffer, dtype: str, index: str, lanes: int, name: str) -> str:
        """Stores a variable of that type there."""
        return f"{self.wide_place(buffer, dtype, index, lanes)} = {name};"

    # ---- Vectors, of a dialect that has them ----

    def lane(self, a: str, lane: int) -> str:
        """An element of a vector."""
        raise self._without_vectors()

    def part(self, dtype: str, a: str, first: int, lanes: int) -> str:
        """Consecutive elements of a vector."""
        raise self._without_vectors()

    def broadcast(self, dtype: str, a: str, lanes: int) -> str:
        """A scalar in every lane."""
        raise self._without_vectors()

    def repeat(self, dtype: str, a: str, count: int, lanes: int) -> str:
        """The `count` lanes of a vector over and over."""
        raise self._without_vectors()

    def assemble(self, dtype: str, elements: Sequence[str]) -> str:
        """A vector of scalars."""
        raise self._without_vectors()

    def blend(self, dtype: str, a: str, b: str, active: int, lanes: int) -> str:
        """The first `active` lanes of `a`, the others of `b`."""
        raise self._without_vectors()

    def shuffle(self, dtype: str, operands: Sequence[str], order: Sequence[int]) -> str:
        """Lanes of one vector, or of two of one type, in a constant order."""
        raise self._without_vectors()

    def apply(self, intrinsic: Intrinsic, operands: Sequence[str]) -> str:
        """A call of an intrinsic."""
        raise self._without_vectors()

    def mask_const(self, value: bool, lanes: int) -> str:
        """A mask of 8 bits, all lanes alike."""
        raise self._without_vectors()

    def mask_of(self, truths: Sequence[str]) -> str:
        """A mask of 8 bits from a truth value for each lane."""
        raise self._without_vectors()

    def mask_splat(self, truth: str, lanes: int) -> str:
        """A mask of 8 bits, one truth value in every lane."""
        raise self._without_vectors()

    def mask_cast(self, mask: str, lanes: int, bits: int) -> str:
        """The mask at another width."""
        raise self._without_vectors()

    def mask_select(self, condition: str, a: str, b: str) -> str:
        """Masks of one width."""
        raise self._without_vectors()

    def mask_blend(self, a: str, b: str, active: int, lanes: int, bits: int) -> str:
        """As `blend`, of masks of one width."""
        raise self._without_vectors()

    def _without_threads(self) -> TypeError:
        return TypeError(f"the dialect {self.name} has no threads of a task")

    def _without_vectors(self) -> TypeError:
        return TypeError(f"the dialect {self.name} has no vectors")

    # ---- Tiles, of a dialect that has them ----

    def tile_header(self, intrinsic: Intrinsic) -> None:
        """Remembers what the calls of the intrinsic's functions need."""
        assert intrinsic.tiles is not None
        self.headers.add(intrinsic.tiles.header)

    def tile_frame(self, s: Tiles) -> tuple[list[str], list[str]]:
        """The lines before and behind the statements on tiles."""
        configure, release = (s.intrinsic.name_in(self.lowerings, name) for name in ("configure", "release"))
        return [self.table("tiles", s.configuration), f"{configure}(tiles);"], [f"{release}();"]

    def tile(self, held: Tiles, call: TileOperation, address: str) -> str:
        """An operation on tiles; `address` is where the one in memory begins."""
        operands = [*map(str, call.tiles), *([address, str(call.stride)] if call.memory is not None else [])]
        return f"{call.intrinsic.name_in(self.lowerings, call.operation)}({', '.join(operands)});"
