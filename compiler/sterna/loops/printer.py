"""The loop program as text: what `--dump-after loops` shows and what object caches are keyed by."""

from __future__ import annotations

from sterna.loops import program as P
from sterna.te.text import position_text, print_expr, type_text


def print_function(f: P.Function) -> str:
    """A loop program in a form for people and for comparison; equal programs print equally."""
    lines = [f"kernel {f.name}  tasks={f.n_tasks} scratch={f.scratch_bytes}"]
    kind = "" if f.dims_type == "int64" else f": {f.dims_type}"
    lines += [f"  dim {symbol}{kind} = {slot}, {symbol.lo} to {symbol.hi}" for symbol, slot in f.dims]
    for b in (*f.inputs, *f.params, *f.outputs):
        strides = ",".join(map(str, b.strides))
        alias = " may alias" if b.may_alias else ""
        shape = ",".join(map(str, b.shape))
        place = f"strides [{strides}] origin {b.origin} of {b.elements} at {b.begin}"
        lines.append(f"  {b.scope} {b.name}: {b.dtype}[{shape}] {place}{alias}")
    _stmt(f.body, 1, lines)
    return "\n".join(lines) + "\n"


def _stmt(s: P.Stmt, depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    if isinstance(s, P.Seq):
        for inner in s.stmts:
            _stmt(inner, depth, lines)
    elif isinstance(s, P.For):
        start = "" if s.start == 0 else f"{s.start} <= "
        facts: list[str] = [] if s.kind == "serial" else [s.kind]
        facts += ["stays rolled"] if s.rolled else []
        facts += ["apart"] if s.apart else []
        told = f"  ({', '.join(facts)})" if facts else ""
        lines.append(f"{pad}for {start}{s.symbol.name} < {s.extent}{told}")
        _stmt(s.body, depth + 1, lines)
    elif isinstance(s, P.If):
        lines.append(f"{pad}if {s.index} < {s.limit}")
        _stmt(s.then, depth + 1, lines)
        if s.otherwise is not None:
            lines.append(f"{pad}else")
            _stmt(s.otherwise, depth + 1, lines)
    elif isinstance(s, P.Branch):
        lines.append(f"{pad}if {print_expr(s.condition)}")
        _stmt(s.then, depth + 1, lines)
        if s.otherwise is not None:
            lines.append(f"{pad}else")
            _stmt(s.otherwise, depth + 1, lines)
    elif isinstance(s, P.Break):
        lines.append(f"{pad}leave the loop")
    elif isinstance(s, P.LetIndex):
        lines.append(f"{pad}{s.symbol.name} = {s.value}")
    elif isinstance(s, P.Let):
        lines.append(f"{pad}let {s.variable.name} = {print_expr(s.value)}")
    elif isinstance(s, P.Declare):
        lines.append(f"{pad}var {s.variable.name}: {type_text(s.variable.dtype, s.variable.lanes)}")
    elif isinstance(s, P.Assign):
        lines.append(f"{pad}{s.variable.name} = {print_expr(s.value)}")
    elif isinstance(s, P.Alloc):
        at = f" at {s.buffer.begin}" if s.buffer.scope.has_offsets else ""
        lines.append(f"{pad}{s.buffer.scope} {s.buffer.name}: {s.buffer.dtype}[{s.buffer.elements}]{at}")
    elif isinstance(s, P.Store):
        place = position_text(s.index, s.value.lanes, s.stride, s.active, s.rows, s.pitch)
        lines.append(f"{pad}{s.buffer.name}[{place}] = {print_expr(s.value)}")
    elif isinstance(s, P.Tiles):
        shapes = (f"{n}: {rows} x {columns} bytes" for n, (rows, columns) in enumerate(s.shapes))
        lines.append(f"{pad}tiles {', '.join(shapes)}")
        _stmt(s.body, depth + 1, lines)
    elif isinstance(s, P.Instruction):
        operands = (_slice(o) if isinstance(o, P.Slice) else o.name for o in s.operands)
        lines.append(f"{pad}{_slice(s.result)} = {s.intrinsic.name}({', '.join(operands)})")
    elif isinstance(s, P.Require):
        lines.append(f"{pad}require {print_expr(s.value)}")
    elif isinstance(s, P.Barrier):
        lines.append(f"{pad}barrier" + (" of the task" if s.reach == "block" else ""))
    elif isinstance(s, P.LastTask):
        lines.append(f"{pad}last of {s.count} tasks with {s.symbol.name} = {s.index}, counted in {s.counters.name}")
        _stmt(s.body, depth + 1, lines)
    elif isinstance(s, P.Copy):
        to, at = (position_text(index, s.elements, 1, None, 0, 0) for index in (s.to, s.at))
        group = f"  asynchronous, group {s.group}" if s.asynchronous else ""
        how = "fetch" if s.fetched else "copy"
        lines.append(f"{pad}{how} {s.destination.name}[{to}] = {s.source.name}[{at}]{group}")
    elif isinstance(s, P.Prefetch):
        lines.append(f"{pad}prefetch {s.buffer.name}[{position_text(s.index, 1, 1, None, 0, 0)}]")
    elif isinstance(s, P.Wait):
        but = f", but for its last {s.in_flight} batches" if s.in_flight else ""
        lines.append(f"{pad}wait for group {s.group}{but}")
    elif isinstance(s, P.Commit):
        lines.append(f"{pad}a batch of group {s.group}")
    elif isinstance(s, P.Settle):
        but = f", but for the last {s.in_flight}" if s.in_flight else ""
        lines.append(f"{pad}wait for products{but}")
    else:
        raise TypeError(f"no such statement: {type(s).__name__}")


def _slice(s: P.Slice) -> str:
    steps = "".join(f" : {n} by {step}" for n, step in zip(s.shape, s.strides, strict=True))
    return f"{s.buffer.name}[{s.start}{steps}]"
