"""A machine to compile for, as data; code asks it for capabilities, never for its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod

from sterna.intrinsics import INTRINSICS as PROVIDED
from sterna.intrinsics import Intrinsic
from sterna.intrinsics.words import single
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.targets.intrinsics import IntrinsicDeclaration, declared_intrinsic
from sterna_runtime.abi import ALIGNMENT

#: Of the largest type of C in a 32-bit processor's memory, and of an instruction that loads two words.
LEAST_ALIGNMENT = 8
#: What compilers can be told to make, the fastest first.
CODE = ("fast", "small", "smallest")


#: Registers of a thread beside those that hold fragments.
OTHERS = 80


@dataclass(frozen=True)
class Threads:
    """How tasks are run by groups of threads.

    Args:
        most: threads that a task can have; preferred: of a task whose threads have nothing to do with one another.
        multiprocessors: tasks that run at a time, each with all that one part of the device has.
        cache_bytes: of the cache that all groups share.
        registers: of 32 bits that a multiprocessor has for the threads of all its tasks; 0: not known.
        fragments: intrinsics for products of fragments of matrices, which a subgroup of threads holds together, by the
            names of `sterna.intrinsics`.
        dots: intrinsics for dot products of words of four bytes, those of one lane, by the same names; of several lanes
            it has them, too.
        asynchronous_bytes: of a copy from the device's memory to that of a task that goes on while its threads compute,
            at most; 0 where there are no such copies.
        subgroup: threads, neighbours along x, whose registers reach one another; 1 where there are none, or not known.
        optional_subgroups: where that is 1, such widths that some of the devices have, the greatest first: kernels that
            would exchange values are written for each of them beside one without, and what loads a bundle takes the
            first that fits.
        converts_halves: whether widening a number of 16 bits and rounding to it costs little beside its memory, so that
            networks of these keep their tensors in 16 bits.
        access_bytes: that one access of a thread to memory takes at most, where it begins at a multiple of them; 0: an
            element at a time.
        last_tasks: whether the last of several tasks can tell that it is, by counters in the device's memory, and sees
            what the others wrote there.
    """

    most: int = 256
    preferred: int = 128
    multiprocessors: int = 16
    cache_bytes: int = 1 << 20
    registers: int = 0
    fragments: tuple[str, ...] = ()
    dots: tuple[str, ...] = ()
    asynchronous_bytes: int = 0
    subgroup: int = 1
    optional_subgroups: tuple[int, ...] = ()
    converts_halves: bool = False
    access_bytes: int = 0
    last_tasks: bool = False

    def alone(self, tasks: int) -> bool:
        """Whether no multiprocessor has two of so many tasks: then a task may take all of its registers."""
        return tasks <= self.multiprocessors

    def beside(self, tasks: int, threads: Iterable[int], held: int = 0) -> int:
        """How many tasks of so many threads (along x, y and z) a multiprocessor is to have registers for, where the
        compiler of a kernel, which spills for the sake of more, is not to decide; 0 where it is.

        Args:
            held: registers of a thread that hold fragments.
        """
        many = prod(threads)
        if self.alone(tasks) or (held and self.registers < 2 * many * (held + OTHERS)):
            return 1
        return 2 if 2 * many >= self.most else 0

    def together(self, threads: int, held: int) -> int:
        """How many tasks of so many threads, with so many registers of each that hold fragments, a multiprocessor has
        registers for; 1 where that is not known."""
        return max(1, self.registers // (threads * (held + OTHERS)))

    def busy(self, tasks: int) -> float:
        """The share of multiprocessors that have a task, in the mean over all waves of so many."""
        waves = -(-tasks // self.multiprocessors)
        return tasks / (waves * self.multiprocessors) if tasks else 0.0


@dataclass(frozen=True)
class Device:
    """A device beside the CPU, with memory of its own. Its driver compiles the kernels that a bundle brings.

    Args:
        kind: by which runtimes find what drives it, such as "opencl".
        module: the file of the bundle with its kernels.
        needs: what it must have, in words of its kind; what drives it checks them when a bundle is loaded.
        lacks: element types that it does not compute with; kernels that have them stay on the CPU.
        emulates: what its language makes up for or every such device has, so that kernels do not need it of one:
            "float64", "subgroup".
        host: the target of kernels that stay on the CPU, where no caller names another and this machine's system loads
            other libraries than it gives; "": this machine, whatever its system.
        buffers: inputs and outputs that a kernel may have together; what has more stays on the CPU.
        multiply_adds_per_ns, bytes_per_ns: that it does and moves with all its threads; with `thread_` before it, one.
        fragment_multiply_adds_per_ns: that it does on fragments of matrices of 16 bits.
        latency_ns: from when a thread asks for what lies in its memory until it has that.
        launch_ns: from the end of a kernel to the first tasks of the next one, which reads what it wrote.
        barrier_ns: what the threads of a group wait for one another at a barrier.
        copy_ns, copied_bytes_per_ns: what a copy between its memory and the CPU's takes.
    """

    kind: str
    module: str
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    emulates: tuple[str, ...] = ()
    host: str = ""
    buffers: int = 48
    multiply_adds_per_ns: float = 500.0
    fragment_multiply_adds_per_ns: float = 4000.0
    bytes_per_ns: float = 100.0
    cache_bytes_per_ns: float = 300.0
    thread_multiply_adds_per_ns: float = 0.1
    thread_bytes_per_ns: float = 0.4
    latency_ns: float = 600.0
    launch_ns: float = 2000.0
    barrier_ns: float = 50.0
    copy_ns: float = 10000.0
    copied_bytes_per_ns: float = 6.0

    def rate(self, intrinsic: Intrinsic | None = None) -> float:
        """Multiply-adds per nanosecond by an intrinsic, of words four at once, or one by one."""
        if intrinsic is None:
            return self.multiply_adds_per_ns
        if intrinsic.of_words:
            return self.multiply_adds_per_ns * intrinsic.group
        return self.fragment_rate(dtypes.bits(intrinsic.operands[0]))

    def fragment_rate(self, bits: int) -> float:
        """Multiply-adds per nanosecond on fragments whose elements take so many bits: half as many of twice as many."""
        return self.fragment_multiply_adds_per_ns * 16 / bits


@dataclass(frozen=True)
class Flash:
    """The memory that firmware's weights are read from, where it is slower than that of tensors: flash behind QSPI.

    Args:
        bytes_per_cycle: that loads get of it, in cycles of the core.
        fetched_bytes_per_cycle: that a copy of many neighbouring bytes gets; 0: as loads.
        fetch_cycles: what such a copy takes beside its bytes.
        cache_bytes: of a cache before it, which keeps what a kernel reads if that is no more.
        dma: whether such copies go on while the core computes.
        panel_bytes: of fast memory that what a kernel has copied there may take.
    """

    bytes_per_cycle: float
    fetched_bytes_per_cycle: float = 0.0
    fetch_cycles: int = 32
    cache_bytes: int = 0
    dma: bool = False
    panel_bytes: int = 8192

    @property
    def fetched(self) -> float:
        """Bytes per cycle of a copy."""
        return self.fetched_bytes_per_cycle or self.bytes_per_cycle


@dataclass(frozen=True)
class Target:
    """A machine to compile for.

    Args:
        triple: in the form of `zig cc -target`; llvm_triple: in LLVM's form.
        cpu: in the form of `zig cc -mcpu`; llvm_cpu, llvm_features: in LLVM's form.
        cpu_features: what the kernels need, in the names of `sterna.h`; the runtime checks them.
        vector_bits: width of a vector register, 0 for none; vector_registers: how many there are, of single numbers
            where there are no vectors.
        integer_registers: how many of the general registers hold the sums and operands of integers, where those are in
            registers of their own; 0 where they are in vector registers, as floats are.
        tile_registers: how many the accumulators of a tile and all operands of a step of its sums may take together,
            where compilers load the operands first; 0 where they load each when it is multiplied.
        wide_products: whether integers are scaled by products of 64 bits, one word of which is the result, where that
            gives what the model says in float64 or by several roundings.
        high_products: whether vectors of integers have products of which the upper word is kept, rounded or not, so
            that only what models say in float64 is scaled otherwise.
        counted_loops: whether the processor counts the iterations of a loop by itself, so that none takes an
            instruction for that.
        long_vectors: whether there are vectors of integers of 64 bits; if not, kernels that add up products and compute
            with those have no vectors.
        compares_floats: whether vectors of floats are compared in every way; if not, kernels that compare floats
            otherwise than for their extrema, or convert them, compute without vectors.
        loads_per_cycle: vectors or broadcast elements that are loaded in a cycle beside arithmetic;
            multiply_adds_per_cycle: of vectors, 0 for two where they are one instruction and one where they are two.
        splat_loads: whether a load repeats an element in all lanes of a vector; if not, a shuffle does, which takes as
            long as a multiply-add.
        fills_registers: whether tiles of floats may take every register: compilers are told not to load operands
            earlier than the kernel does, which takes one more.
        interleaves: whether instructions put lanes of two vectors side by side, so that squares of narrow elements are
            transposed in registers.
        prefetches: whether weights that L2 does not keep are asked for before they are read.
        by_lane: whether a vector is multiplied by an element of another one in one instruction.
        unrolled_products: vector multiply-adds that the body of a reduction loop may hold written out.
        float_products: multiply-adds of floats that the bodies of a kernel's tile may hold written out together, those
            of its partial tiles among them, where code is to be small; 0 where only registers limit it.
        fma: whether a fused multiply-add is one instruction; fma_bits: of vectors of that many bits only, 0 for scalars
            and vectors of every width; fma_float64: whether it is one of float64, too.
        int_dot: intrinsics for dot products of small integers, by the names of `sterna.intrinsics`, the best first.
        float_dot: those for dot products of small floats, the best first.
        int_tile: intrinsics for products of tiles of small integers, by the same names.
        pointer_bits, cores, l1_bytes, l1_ways, l2_bytes, l2_ways, line_bytes: sizes that strategies and the benchmark's
            model of caches ask for, of the level 1 data cache (L1), the level 2 cache (L2) of one core, and their
            lines; l1_bytes is 0 without a cache.
        share_cycles: of a kernel, from which on other cores are worth calling: they take that long to come and to be
            waited for, a few times over.
        barriers: whether workers can wait for one another within a kernel.
        code: what compilers make of kernels: "fast", "small" or "smallest" code.
        dialect: of C, "vector" (clang and gcc vector types), "plain" (C99), or "packed" (C99 with intrinsics of the
            compiler's headers whose operands are packed in registers, and no other vectors).
        library: file name of the kernels: model.so, model.wasm, model.a ...; empty for source only.
        static: emit `model.c` and `params.c` for firmware in place of `graph.json`.
        run_time_functions: whether a library holds those functions of the compiler's run-time library that it calls, as
            the processor divides 64-bit integers or rounds floats by no instruction.
        c_flags: further compiler flags, with folders of headers as the description sees them; link_flags: further
            linker flags.
        widens_params: the runtime widens weights that are stored in float16 when it loads a bundle; for machines that
            have no instruction for it.
        variants: targets whose kernels `--all-variants` puts into one bundle, best first; they run the schedules of
            this target, so that they share graph and weights.
        own_graphs: each variant has schedules and a graph of its own instead; equal weights are still stored once.
            Of an ABI of Android: its graph is its own, so that kernels can be cut into other tasks.
        threads: how several threads run a task; none where one does.
        device: that kernels run on beside the CPU, whose target `Options.host` is; none where the target is the CPU.
        flash: that weights are read from, where it is slow; none where they are read as fast as tensors are.
        memories: those that schedules may name and tensors may live in; none: one arena of any size holds all tensors.
        intrinsics: those that the description declares, which schedules may name as they name Sterna's own.
        file: the description, where it is not one of Sterna's own.
        runs_on: how a library of this target is run elsewhere: "native", "node", "wine64", or a program of qemu-user
            with the processor that has no more than the target names, where qemu has one; empty: nothing is known.
    """

    name: str
    description: str
    triple: str
    llvm_triple: str
    cpu: str = ""
    llvm_cpu: str = ""
    llvm_features: tuple[str, ...] = ()
    cpu_features: tuple[str, ...] = ()
    vector_bits: int = 0
    vector_registers: int = 8
    integer_registers: int = 0
    tile_registers: int = 0
    wide_products: bool = False
    high_products: bool = False
    compares_floats: bool = True
    counted_loops: bool = False
    long_vectors: bool = True
    loads_per_cycle: float = 2.0
    multiply_adds_per_cycle: float = 0.0
    splat_loads: bool = True
    fills_registers: bool = False
    interleaves: bool = True
    prefetches: bool = False
    by_lane: bool = False
    unrolled_products: int = 96
    float_products: int = 0
    fma: bool = False
    fma_bits: int = 0
    fma_float64: bool = True
    int_dot: tuple[str, ...] = ()
    float_dot: tuple[str, ...] = ()
    int_tile: tuple[str, ...] = ()
    pointer_bits: int = 64
    cores: int = 1
    share_cycles: int = 4096
    barriers: bool = True
    l1_bytes: int = 32768
    l1_ways: int = 8
    l2_bytes: int = 262144
    l2_ways: int = 8
    line_bytes: int = 64
    code: str = "fast"
    dialect: str = "vector"
    library: str = "model.so"
    static: bool = False
    run_time_functions: bool = False
    c_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    widens_params: bool = False
    variants: tuple[str, ...] = ()
    own_graphs: bool = False
    runs_on: str = ""
    threads: Threads | None = None
    device: Device | None = None
    flash: Flash | None = None
    memories: tuple[Memory, ...] = ()
    intrinsics: tuple[IntrinsicDeclaration, ...] = ()
    file: str = field(default="", compare=False)

    @property
    def rate(self) -> float:
        """Multiply-adds of vectors in a cycle."""
        return self.multiply_adds_per_cycle or (2.0 if self.fma else 1.0)

    @property
    def rounded(self) -> frozenset[str]:
        """What it has instructions for that round, of vectors of numbers of 32 bits: "round_shift", an integer by a
        power of two; "nearest", floats to integers, and those to bytes, saturated."""
        machine = self.llvm_triple.split("-")[0]
        if self.dialect != "vector" or not self.vector_bits:
            return frozenset()
        if machine in ("aarch64", "arm64"):
            return frozenset(("nearest", "round_shift"))
        if machine == "x86_64" and self.vector_bits <= 256:  # wider ones saturate as they narrow
            return frozenset(("nearest",))
        return frozenset(("round_shift",)) if machine.startswith("thumbv8.1m") else frozenset()

    @property
    def rounds_bytes(self) -> bool:
        """Whether it has instructions that round vectors of floats to integers and saturate those to bytes."""
        return "nearest" in self.rounded

    @property
    def widens_products(self) -> bool:
        """Whether it multiplies either half of a register of 8 or 16 bits into twice as many."""
        return "round_shift" in self.rounded and self.rounds_bytes

    @property
    def alignment(self) -> int:
        """Of buffers and weights, in bytes: what runtimes give every kernel; in firmware what the widest type needs."""
        return LEAST_ALIGNMENT if self.static else ALIGNMENT

    @property
    def saves_memory(self) -> bool:
        """Whether memory is scarcest: a kernel pads what it reads, a few rows at a time, where a padded tensor
        would take more of it."""
        return self.static

    def with_subgroup(self, threads: int) -> Target:
        """A target that is known to have subgroups of so many threads."""
        assert self.threads is not None
        return replace(self, threads=replace(self.threads, subgroup=threads, optional_subgroups=()))

    def in_fewer_registers(self, registers: int, products: int) -> Target:
        """A target whose tiles take at most so many registers and write out so many products."""
        return replace(
            self,
            vector_registers=min(self.vector_registers, 2 * registers),
            integer_registers=min(self.integer_registers, registers),
            unrolled_products=min(self.unrolled_products, products),
        )

    def lanes(self, dtype_bits: int) -> int:
        """Elements of that size in a vector register; 1 if there are no vectors."""
        return max(1, self.vector_bits // dtype_bits)

    def written(self, dtype: str) -> int:
        """Multiply-adds of a type that the bodies of a tile may hold written out together; 0 for any number."""
        return 0 if dtypes.is_integer(dtype) else self.float_products

    def registers(self, dtype: str) -> int:
        """Registers for the sums of a type and what is added to them."""
        return self.integer_registers if self.integer_registers and dtypes.is_integer(dtype) else self.vector_registers

    @property
    def tensor_memories(self) -> tuple[Memory, ...]:
        """The memories that tensors between kernels live in; none where there is one arena of any size."""
        return tuple(m for m in self.memories if m.holds_tensors)

    def memory(self, name: str) -> Memory | None:
        """The memory of that name."""
        return next((m for m in self.memories if m.name == name), None)

    @property
    def known_intrinsics(self) -> dict[str, Intrinsic]:
        """Sterna's intrinsics and those that the target declares, by name."""
        return {**PROVIDED, **{d.name: declared_intrinsic(d) for d in self.intrinsics}}

    @property
    def dot_products(self) -> list[Intrinsic]:
        """The intrinsics for dot products, the best first."""
        names = (*self.int_dot, *self.float_dot)
        known = self.known_intrinsics if names else {}
        return [known[name] for name in names]

    @property
    def fragment_types(self) -> frozenset[str]:
        """The types of matrices whose products it adds up in float32 by fragments."""
        known = (PROVIDED[name] for name in self.fragments)
        return frozenset(dtype for intrinsic in known if intrinsic.dtype == "float32" for dtype in intrinsic.operands)

    @property
    def fragments(self) -> tuple[str, ...]:
        """Its intrinsics for products of fragments, which begin as aligned in the memory of a task as they have to."""
        shared = next((m for m in self.memories if m.reach == "block" and m.loadable), None)
        if self.threads is None or shared is None:
            return ()
        tiles = ((name, PROVIDED[name].tiles) for name in self.threads.fragments)
        return tuple(name for name, unit in tiles if unit is not None and shared.alignment % (2 * unit.row_bytes) == 0)

    def has(self, intrinsic: Intrinsic) -> bool:
        """Whether the processor has the instructions of an intrinsic."""
        declared = (d.name for d in self.intrinsics)
        of_threads = (*self.threads.fragments, *self.threads.dots) if self.threads is not None else ()
        name = single(intrinsic) or intrinsic.name
        return name in (*self.int_dot, *self.float_dot, *self.int_tile, *of_threads, *declared)

    def fuses(self, dtype_bits: int, lanes: int) -> bool:
        """Whether a fused multiply-add of so many lanes is one instruction, or some of full width."""
        if dtype_bits > 32 and not self.fma_float64:
            return False
        parts, rest = divmod(dtype_bits * lanes, self.fma_bits or 1)
        return self.fma and (not self.fma_bits or (rest == 0 and parts.bit_count() == 1))

    @property
    def is_wasm(self) -> bool:
        """Whether kernel libraries are WebAssembly modules."""
        return self.library.endswith(".wasm")
