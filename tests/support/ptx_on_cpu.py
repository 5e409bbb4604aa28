"""PTX as C++ over the fibers of `cuda_on_cpu.h`, where there is no GPU: an independent reading of the PTX ISA's manual.

    python ptx_on_cpu.py kernels.ptx > kernels.cpp

Each instruction becomes one statement on registers as bits; addresses are those of the process. Loads and stores are
checked: aligned, and, in the device's memory, within an allocation. An instruction that is not known is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BINARY = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_ROUNDED = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_SPECIAL = re.compile(r"%(n?tid|n?ctaid)\.([xyz])")
_PLACES = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}
#: Words of an instruction that say nothing of its result here: caches, and what a branch or barrier is known to be.
_HINTS = {"nc", "uni", "sync", "aligned", "lo", "relaxed", "weak", "to", "rn", "cta", "volatile"}

#: Address spaces that accesses name; without one an address is the device's here.
_SPACES = {"global": "GLOBAL", "shared": "SHARED", "local": "LOCAL", "": "GLOBAL"}

_HEAD = '#include "ptx_on_cpu.h"\n'


class Entry:
    """One kernel: its text, translated."""

    def __init__(self, name: str, parameters: str, directives: str, body: str, asked: Sequence[str]):
        """`asked`: names of shared memory of as many bytes as a launch asks for."""
        self.name, self.body = name, body
        self.parameters = {p.split()[-1]: n for n, p in enumerate(q.strip() for q in parameters.split(",")) if p}
        self.threads = tuple(int(n) for n in re.findall(r"\d+", _after(directives, ".reqntid")))
        self.waits = False
        #: Whether products read what shared memory has behind the threads' backs.
        self.products = "wgmma" in body
        self.asked, self.symbols = asked, dict.fromkeys(asked, "(u64)ptx_asked")

    def text(self) -> str:
        lines = ["  if (ptx_asked) ptx_has(ptx_asked, ptx_asked_bytes);"] if self.asked else []
        for raw in _statements(self.body):
            lines += [f"  {line}" for line in self.statement(raw)]
        block = ", ".join(str(n) for n in self.threads) or "0, 0, 0"
        run = "cuda_launch" if self.waits else "cuda_launch_alone"
        return "\n".join(
            [
                f"static void kernel_{self.name}(void **arguments) {{",
                "  (void)arguments;",
                *lines,
                "}",
                f'extern "C" const unsigned ptx_block_{self.name}[3] = {{{block}}};',
                f'extern "C" int ptx_launch_{self.name}(',
                "    const unsigned *grid, const unsigned *block, unsigned seed, unsigned asked, void **arguments) {",
                "  int failed = 0;",
                "  AskedMemory memory(asked);",
                f"  int waits = {run}({{grid[0], grid[1], grid[2]}}, {{block[0], block[1], block[2]}}, seed, [&] {{",
                f"    try {{ kernel_{self.name}(arguments); }} catch (int code) {{ failed = code; }}",
                "  });",
                "  return failed ? failed : waits ? 719 : 0;",
                "}",
            ]
        )

    def statement(self, raw: str) -> list[str]:
        if raw in "{}":
            return [raw]
        if raw.startswith(".pragma"):
            return []
        if raw.endswith(":"):
            return [f"{_label(raw[:-1])}:;"]
        if match := re.fullmatch(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>", raw):
            return [f"{match[1]} {match[2]}[{match[3]}];"]
        if match := re.fullmatch(r"\.(shared|local) \.align (\d+) \.(\w+) ([\w$]+)(?:\[(\d+)\])?", raw):
            space, alignment, dtype, name, count = match.groups()
            # LLVM makes variables of single elements.
            self.symbols[name] = f"(u64){name}"
            array = f"{dtype.replace('b8', 'u8')} {name}[{count or 1}];"
            if space == "local":
                return [f"alignas({alignment}) {array}"]
            return [f"alignas({alignment}) static {array} ptx_has({name}, sizeof {name});"]
        guard = ""
        if match := re.match(r"@(!?)%(\w+?)(\d+)\s+", raw):
            guard, raw = f"if ({match[1]}{match[2]}[{match[3]}]) ", raw[match.end() :]
        operation, _, rest = raw.partition(" ")
        return [guard + self.instruction(operation, _operands(rest))]

    def instruction(self, operation: str, o: list[str]) -> str:
        name, *words = operation.split(".")
        kept = [w for w in words if w not in _HINTS]
        if name == "ret":
            return "return;"
        if name == "bra":
            return f"goto {_label(o[0])};"
        if (name, *kept) == ("bar", "red", "or", "pred"):
            assert o[1] == "0", f"barrier {o}"
            self.waits = True
            return self.to(o[0], "pred", f"__syncthreads_or({self.of('pred', o[2])})")
        if (name, *kept) == ("atom", "global", "inc", "u32"):
            base, _, offset = o[1].strip("[]").partition("+")
            place = f"({self.of('u64', base)} + (s64){offset or 0})"
            return self.to(o[0], "u32", f"increment({place}, {self.of('u32', o[2])})")
        if name in ("bar", "barrier"):
            assert o == ["0"], f"barrier {o}"
            self.waits = True
            return "{ meet_before_products(); __syncthreads(); }" if self.products else "__syncthreads();"
        if name == "fence" and words[1:] == ["gpu"]:
            assert words[0] in ("acq_rel", "sc"), words
            return ";"
        if name == "fence":
            assert words == ["proxy", "async", "shared::cta"], words
            return "cuda_now->unseen = false;"
        if name in ("ld", "st"):
            return self.access(name, kept, o, words)
        if name == "cp":
            assert words[0] == "async", operation
            if words[1] == "wait_all":
                return "copy_now();"
            if words[1] == "commit_group":
                return "copy_batch();"
            if words[1] == "wait_group":
                return f"copy_now({int(o[0])});"
            places = []
            for place in o[:2]:
                base, _, offset = place.strip("[]").partition("+")
                places.append(f"({self.of('u64', base)} + (s64){offset or 0})")
            return f"copy_later({', '.join(places)}, {int(o[2])});"
        if name == "shfl":
            assert kept == ["bfly", "b32"], operation
            assert o[3] == "31", operation
            self.waits = True
            register = o[0].partition("|")[0]
            given = ", ".join(self.of("u32", operand) for operand in (o[4], o[1], o[2]))
            return self.to(register, "b32", f"cuda_from<u32>({given})")
        if name == "dp4a":
            left, right = (f"{word[0]}8" for word in kept)
            a, b, total = (self.of("u32", operand) for operand in o[1:])
            return self.to(o[0], "u32", f"dot_of_words<{left}, {right}>({a}, {b}, {total})")
        if name == "wmma":
            self.waits = True
            return self.fragments(kept, o)
        if name == "wgmma":
            self.waits = True
            return self.warpgroup(kept, o)
        if name == "cvt":
            return self.convert(kept, o)
        if name == "cvta":
            return self.to(o[0], "u64", self.of("u64", o[1]))
        if name == "setp":
            return self.compare(kept, o)
        t = kept[-1]
        if name == "mov" and o[0].startswith("{"):
            parts = _operands(o[0].strip("{}"))
            part, whole = f"u{int(t[1:]) // len(parts)}", self.of(f"u{t[1:]}", o[1])
            shifted = (f"({part})({whole} >> {n * int(part[1:])})" for n in range(len(parts)))
            kept = ((r, v) for r, v in zip(parts, shifted, strict=True) if r != "_")
            return "{ " + " ".join(self.to(r, part, v) for r, v in kept) + " }"
        if name == "mov" and o[1].startswith("{"):
            parts = _operands(o[1].strip("{}"))
            part, whole = f"u{int(t[1:]) // len(parts)}", f"u{t[1:]}"
            shifted = (f"(({whole}){self.of(part, r)} << {n * int(part[1:])})" for n, r in enumerate(parts))
            return self.to(o[0], whole, " | ".join(shifted))
        if name == "mov":
            t = t if t[0] != "f" else f"b{t[1:]}"
            return self.to(o[0], t, self.of(t, o[1]))
        if name == "mul" and words[0] in ("wide", "hi"):
            wide = t[0] + str(2 * int(t[1:]))
            product = f"({wide}){self.of(t, o[1])} * ({wide}){self.of(t, o[2])}"
            if words[0] == "wide":
                return self.to(o[0], wide, f"({wide})({product})")
            return self.to(o[0], t, f"({t})(({product}) >> {t[1:]})")
        if name == "mad" and words[0] == "wide":
            wide = t[0] + str(2 * int(t[1:]))
            a, b, c = self.of(t, o[1]), self.of(t, o[2]), self.of(wide, o[3])
            return self.to(o[0], wide, f"({wide})((u64)(({wide}){a} * ({wide}){b}) + (u64){c})")
        return self.to(o[0], t, self.value(name, words, t, o))

    def value(self, name: str, words: list[str], t: str, o: list[str]) -> str:
        """The result of an operation, as a value of its type."""
        if t == "pred":
            a = self.of("pred", o[1])
            return f"!{a}" if name == "not" else f"({a} {_BINARY[name]} {self.of('pred', o[2])})"
        is_float = t[0] == "f"
        if name in ("shl", "shr"):
            side = {"shl": "left", "shr": "right"}[name]
            kind = f"u{t[1:]}" if t[0] == "b" else t
            return f"shift_{side}<{kind}>({self.of(kind, o[1])}, {self.of('u32', o[2])})"
        if name == "bfe":
            return f"field<{t}>({self.of(t, o[1])}, {self.of('u32', o[2])}, {self.of('u32', o[3])})"
        if name == "prmt":
            return f"permuted({self.of('u32', o[1])}, {self.of('u32', o[2])}, {self.of('u32', o[3])})"
        if name == "selp":
            return f"({self.of('pred', o[3])} ? {self.of(t, o[1])} : {self.of(t, o[2])})"
        v = [self.of(t, x) for x in o[1:]]
        if is_float:
            assert not {"ftz", "approx", "sat", "rz", "rm", "rp"} & set(words), words
            wide = "f32" if t == "f16" else t
            v = [f"({wide}){x}" for x in v]
            if name in ("add", "sub", "mul", "div", "rcp", "sqrt", "fma"):
                assert t == "f16" or "rn" in words, f"{name} without its rounding could be contracted"
            found = {
                "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "rcp": "1 / {0}",
                "sqrt": "std::sqrt({0})", "fma": "std::fma({0}, {1}, {2})", "neg": "-({0})", "abs": "std::fabs({0})",
                "min": "float_least({0}, {1})", "max": "float_greatest({0}, {1})",
                "copysign": "std::copysign({1}, {0})",
            }[name]  # fmt: skip
            text = found.format(*v, *[""] * 3)
            if "NaN" in words:
                text = f"nan_or({v[0]}, {v[1]}, {text})"
            return f"({t})({text})"
        unsigned = f"u{t[1:]}"
        u = [self.of(unsigned, x) for x in o[1:]]
        if name in _BINARY:
            return f"({t})({u[0]} {_BINARY[name]} {u[1]})"
        if name == "mul":
            return f"({t})((u64){u[0]} * (u64){u[1]})"
        if name == "mad":
            return f"({t})((u64){u[0]} * (u64){u[1]} + (u64){u[2]})"
        found = {
            "min": "least<{t}>({0}, {1})", "max": "greatest<{t}>({0}, {1})", "div": "({0} / {1})", "rem": "({0} % {1})",
            "not": "~{0}", "neg": "(0 - (u64){0})", "abs": "({0} < 0 ? 0 - (u64){0} : (u64){0})",
            "popc": "__builtin_popcountll({0})", "clz": "({0} ? __builtin_clzll({0}) - (64 - {bits}) : {bits})",
        }[name]  # fmt: skip
        return f"({t}){found.format(*v, *[''] * 3, t=t, bits=t[1:])}"

    def compare(self, words: list[str], o: list[str]) -> str:
        relation, t = words[0], words[-1]
        if t == "f16x2":
            # Of two halves in a register each: a truth value for either.
            sides = [f"(u16)({self.of('u32', x)} >> {shift})" for shift in (0, 16) for x in o[1:]]
            both = (self.related(relation, "f16", *(f"as<f16>({x})" for x in sides[n : n + 2])) for n in (0, 2))
            return "{ " + " ".join(self.to(r, "pred", v) for r, v in zip(o[0].split("|"), both, strict=True)) + " }"
        a, b = (self.of(t if t[0] != "b" else f"u{t[1:]}", x) for x in o[1:3])
        return self.to(o[0], "pred", self.related(relation, t, a, b))

    def related(self, relation: str, t: str, a: str, b: str) -> str:
        """Whether two values of a type are in a relation."""
        if t[0] == "f":
            if relation in ("num", "nan"):
                text = f"{'!' if relation == 'num' else ''}({a} != {a} || {b} != {b})"
            elif relation.endswith("u"):
                text = f"({a} != {a} || {b} != {b} || {a} {_COMPARE[relation[:-1]]} {b})"
            else:
                text = f"({a} == {a} && {b} == {b} && {a} {_COMPARE[relation]} {b})"
        else:
            text = f"({a} {_COMPARE[relation]} {b})"
        return text

    def convert(self, words: list[str], o: list[str]) -> str:
        to, of = words[-2:]
        if to == "tf32":
            assert words == ["rna", "tf32", "f32"], words
            return self.to(o[0], "b32", f"to_tf32({self.of('f32', o[1])})")
        if to == "f16x2":
            # Two halves in a register, the first operand in its upper bits.
            assert words == ["f16x2", "f32"], words
            high, low = (f"(u32)bits_of<u16>((f16){self.of('f32', x)})" for x in o[1:3])
            return self.to(o[0], "b32", f"({high} << 16 | {low})")
        modes = set(words[:-2])
        a = self.of(of, o[1])
        rounding = next((f for mode, f in _ROUNDED.items() if mode in modes), "")
        assert not modes - set(_ROUNDED), f"cvt {words}"
        if of[0] == "f":
            wide = "f32" if of == "f16" else of
            a = f"std::{rounding}(({wide}){a})" if rounding else f"({wide}){a}"
        value = f"to_integer<{to}>({a})" if of[0] == "f" and to[0] != "f" else f"({to}){a}"
        return self.to(o[0], to, value)

    def access(self, name: str, words: list[str], o: list[str], modifiers: Sequence[str]) -> str:
        t = words[-1]
        vector = next((int(w[1:]) for w in words if re.fullmatch(r"v[248]", w)), 1)
        space = words[0] if words[0] in ("param", "global", "shared", "local") else ""
        registers, place = (o[0], o[1]) if name == "ld" else (o[1], o[0])
        names = _operands(registers.strip("{}")) if vector > 1 else [registers]
        base, _, offset = place.strip("[]").partition("+")
        if space == "param":
            return self.to(names[0], t, f"*(const {t} *)arguments[{self.parameters[base]}]")
        address = f"({self.of('u64', base)} + (s64){offset or 0})"
        size, where = int(t[1:]) // 8, _SPACES[space]
        parts = [f"check_unwritten({address}, {size * vector});"] if "nc" in modifiers else []
        assert len(names) == vector, names
        for n, register in enumerate(names):
            facts = f"{size * vector}, {where}, {str(n == 0).lower()}"
            at = f"{address} + {size * n}"
            if name == "ld":
                parts.append(self.to(register, t, f"load<{t}>({at}, {facts})"))
            else:
                parts.append(f"store<{t}>({at}, {self.of(t, register)}, {facts});")
        if self.products and (name, space) == ("st", "shared"):
            parts.append("cuda_now->unseen = true;")
        return "{ " + " ".join(parts) + " }" if len(parts) > 1 else parts[0]

    def fragments(self, words: list[str], o: list[str]) -> str:
        """An operation on fragments of matrices: all threads of a warp have a part of each."""
        lists = [_operands(part.strip("{}")) for part in o if part.startswith("{")]
        parts, place = len(lists[0]), next((part.strip("[]") for part in o if part.startswith("[")), "")
        base, _, offset = place.partition("+")
        address = f"({self.of('u64', base)} + (s64){offset or 0})" if place else ""
        given = [f"u32 v{n}[] = {{{', '.join(self.of('u32', r) for r in part)}}};" for n, part in enumerate(lists)]
        results = [self.to(r, "b32", f"d[{n}]") for n, r in enumerate(lists[0])]
        operation, where = words[0], next((_SPACES[word] for word in words if word in _SPACES), _SPACES[""])
        if operation == "load":
            step, column = self.of("u32", o[2]), str("col" in words).lower()
            call = f"u32 d[{parts}]; wmma_load<{parts}>(d, {address}, {step}, {column}, {where});"
            if "tf32" in words:
                assert (parts, words[3]) == (4, "m16n16k8"), words
                right = str(words[1] == "b").lower()
                call = f"u32 d[4]; wmma_load_tf32(d, {address}, {step}, {column}, {right}, {where});"
            if words[-1] in ("s8", "u8"):
                assert (parts, words[3]) == (2, "m16n16k16"), words
                right = str(words[1] == "b").lower()
                call = f"u32 d[2]; wmma_load_bytes(d, {address}, {step}, {column}, {right}, {where});"
            return f"{{ {call} {' '.join(results)} }}"
        if operation == "store":
            return f"{{ {given[0]} wmma_store({address}, v0, {self.of('u32', o[2])}, {where}); }}"
        assert operation == "mma", words
        if "tf32" in words:
            return f"{{ {' '.join(given[1:])} u32 d[{parts}]; wmma_mma_tf32(d, v1, v2, v3); {' '.join(results)} }}"
        if words[-1] == "s32":
            shape, d, left, right, c = words[3:]
            assert (shape, d, left, c) == ("m16n16k16", "s32", right, "s32"), words
            call = f"u32 d[{parts}]; wmma_mma_bytes<{left}>(d, v1, v2, v3);"
            return f"{{ {' '.join(given[1:])} {call} {' '.join(results)} }}"
        kind, held = ("bf16" if "bf16" in words else "f16"), len(lists[1])
        call = f"u32 d[{parts}]; wmma_mma<{kind}, {held}>(d, v1, v2, v3);"
        return f"{{ {' '.join(given[1:])} {call} {' '.join(results)} }}"

    def warpgroup(self, words: list[str], o: list[str]) -> str:
        """A step of a product of warpgroups, which happens when it is waited for."""
        if words[0] == "fence":
            return "products_fence();"
        if words[0] == "commit_group":
            return "products_begin();"
        if words[0] == "wait_group":
            return f"products_end({int(o[0])});"
        (shape, d, a, b), (left, right, on, *signs, turned_a, turned_b) = words[1:], o[1:]
        match = re.fullmatch(r"m64n(\d+)k16", shape)
        assert match, shape
        assert (words[0], d, a, signs) == ("mma_async", "f32", b, ["1", "1"]), words
        registers, (shared,) = _operands(o[0].strip("{}")), [name for name in self.symbols if name in self.body]
        size = "ptx_asked_bytes" if shared in self.asked else f"sizeof {shared}"
        held = ", ".join(self.of("u32", r) for r in registers)
        results = " ".join(self.to(r, "b32", f"d[{n}]") for n, r in enumerate(registers))
        given = f"{self.symbols[shared]}, {size}, {turned_a}, {turned_b}"
        run = f"u32 d[] = {{{held}}}; wgmma<{a}, {match[1]}>(d, left, right, {given}); {results}"
        place = f"u64 left = {self.of('u64', left)}, right = {self.of('u64', right)}"
        return (
            f"{{ if (!{self.of('pred', on)}) throw (int)ILLEGAL; {place}; "
            f"products_issue([&, left, right] {{ {run} }}); }}"
        )

    # -- operands
    def to(self, register: str, t: str, value: str) -> str:
        """Writes a value of a type to a register, extended as its sign says."""
        match = re.fullmatch(r"%([A-Za-z]+)(\d+)", register)
        assert match, register
        r = f"{match[1]}[{match[2]}]"
        if t == "pred":
            return f"{r} = {value};"
        if t[0] == "f":
            return f"{r} = bits_of<decltype(+{r})>(({t})({value}));"
        return f"{r} = (decltype(+{r}))({t})({value});"

    def of(self, t: str, operand: str) -> str:
        """An operand as a value of a type."""
        if match := _SPECIAL.fullmatch(operand):
            return f"(({t}){_PLACES[match[1]]}.{match[2]})"
        if match := re.fullmatch(r"%([A-Za-z]+)(\d+)", operand):
            r = f"{match[1]}[{match[2]}]"
            return r if t == "pred" else f"as<{t}>({r})"
        if match := re.fullmatch(r"0[fF]([0-9A-Fa-f]{8})", operand):
            return f"as<{t}>((u32)0x{match[1]})"
        if match := re.fullmatch(r"0[dD]([0-9A-Fa-f]{16})", operand):
            return f"as<{t}>((u64)0x{match[1]})"
        if match := re.fullmatch(r"(-?)(\d+|0x[0-9A-Fa-f]+)U?", operand):
            number = int(match[2], 0) * (-1 if match[1] else 1)
            return f"as<{t}>((u64){number % (1 << 64)}u)" if t != "pred" else str(number)
        if operand in self.symbols:
            return f"({t}){self.symbols[operand]}"
        raise NotImplementedError(f"operand {operand}")


def _after(text: str, word: str) -> str:
    """What follows a directive on its line."""
    return next((line.partition(word)[2] for line in text.splitlines() if word in line), "")


def _label(name: str) -> str:
    return name.replace("$", "L").strip()


def _operands(text: str) -> list[str]:
    return [part.strip() for part in re.findall(r"\s*\{[^}]*\}|\s*\[[^\]]*\]|[^,]+", text) if part.strip()]


def _statements(body: str) -> list[str]:
    """Declarations, instructions and labels, without comments."""
    text = re.sub(r"//.*", "", body)
    # Lists of registers, which may have lines of their own, are no blocks.
    text = re.sub(r"\s*\n\s*(\{%)", r" \1", text)
    text = re.sub(r"^(\S+:)$", r"\1;", text, flags=re.M)
    text = re.sub(r"(^|;)(\s*[{}])", r"\1\2;", text, flags=re.M)
    # Registers that are not numbered.
    text = re.sub(r"(\.reg \.\w+\s+)%?(SPL?|tmp|on);", r"\1%\2<1>;", text)
    text = re.sub(r"(%SPL?|\b(?:tmp|on))\b(?!<)", lambda found: f"%{found[1].strip('%')}0", text)
    return [" ".join(part.split()) for part in text.split(";") if part.strip()]


def translate(ptx: str) -> str:
    """The file of C++ for a file of PTX."""
    entries = re.findall(r"\.visible \.entry (\w+)\(([^)]*)\)([^{]*)\{\n(.*?)\n\}", ptx, re.S)
    if not entries:
        raise NotImplementedError("no entry")
    asked = re.findall(r"^\.extern \.shared \.align \d+ \.b8 (\w+)\[\];", ptx, re.M)
    return "\n".join([_HEAD, *(Entry(*e, asked).text() for e in entries)]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(translate(Path(sys.argv[1]).read_text(encoding="utf-8")))
