"""The loop program as text: what `--dump-after loops` shows and what object caches are keyed by."""

from __future__ import annotations

from sterna.loops import program as P
from sterna.te import expr as E

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shift_left": "<<", "shift_right": ">>"}
_RELATION = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}


def print_function(f: P.Function) -> str:
    """A loop program in a form for people and for comparison; equal programs print equally."""
    lines = [f"kernel {f.name}  tasks={f.n_tasks} scratch={f.scratch_bytes}"]
    for b in (*f.inputs, *f.params, *f.outputs):
        strides = ",".join(map(str, b.strides))
        lines.append(f"  {b.scope} {b.name}: {b.dtype}[{','.join(map(str, b.shape))}] strides [{strides}] origin {b.origin} of {b.elements} at {b.slot}")
    _stmt(f.body, 1, lines)
    return "\n".join(lines) + "\n"


def print_stmt(stmt: P.Stmt) -> str:
    lines: list[str] = []
    _stmt(stmt, 0, lines)
    return "\n".join(lines)


def _stmt(s: P.Stmt, depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    if isinstance(s, P.Seq):
        for inner in s.stmts:
            _stmt(inner, depth, lines)
    elif isinstance(s, P.For):
        lines.append(f"{pad}for {s.symbol.name} < {s.extent}" + ("" if s.kind == "serial" else f"  ({s.kind})"))
        _stmt(s.body, depth + 1, lines)
    elif isinstance(s, P.If):
        lines.append(f"{pad}if {s.index} < {s.limit}")
        _stmt(s.then, depth + 1, lines)
        if s.otherwise is not None:
            lines.append(f"{pad}else")
            _stmt(s.otherwise, depth + 1, lines)
    elif isinstance(s, P.LetIndex):
        lines.append(f"{pad}{s.symbol.name} = {s.value}")
    elif isinstance(s, P.Let):
        lines.append(f"{pad}let {s.variable.name} = {print_expr(s.value)}")
    elif isinstance(s, P.Declare):
        lines.append(f"{pad}var {s.variable.name}: {_type(s.variable.dtype, s.variable.lanes)}")
    elif isinstance(s, P.Assign):
        lines.append(f"{pad}{s.variable.name} = {print_expr(s.value)}")
    elif isinstance(s, P.Alloc):
        at = f" at {s.buffer.slot}" if s.buffer.scope == "scratch" else ""
        lines.append(f"{pad}{s.buffer.scope} {s.buffer.name}: {s.buffer.dtype}[{s.buffer.elements}]{at}")
    elif isinstance(s, P.Store):
        lines.append(f"{pad}{s.buffer.name}[{_position(s.index, s.value.lanes, s.stride, s.active)}] = {print_expr(s.value)}")
    else:
        raise TypeError(f"no such statement: {type(s).__name__}")


def _type(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _position(index: object, lanes: int, stride: int, active: int | None) -> str:
    if lanes == 1:
        return str(index)
    text = f"{index} : {lanes if active is None else active}"
    return text if stride == 1 else f"{text} step {stride}"


def print_expr(e: E.Expr) -> str:
    """One value as text; fully bracketed."""
    if isinstance(e, E.Const):
        return f"{e.value!r}" + ("" if e.dtype == "float32" else f":{e.dtype}") + (f" x{e.lanes}" if e.lanes > 1 else "")
    if isinstance(e, E.IndexValue):
        return f"{e.dtype}({e.index})" + (f" x{e.lanes} step {e.stride}" if e.lanes > 1 else "")
    if isinstance(e, E.Load):
        position = ", ".join(map(str, e.indices)) if len(e.indices) != 1 else _position(e.indices[0], e.lanes, e.stride, e.active)
        tail = "" if e.active is None else f" of {e.lanes}"
        return f"{e.tensor.name}[{position}{tail}]"
    if isinstance(e, P.Read):
        return e.variable.name
    if isinstance(e, P.Lane):
        return f"{print_expr(e.a)}.{e.lane}"
    if isinstance(e, P.Broadcast):
        return f"{print_expr(e.a)} x{e.lanes}"
    if isinstance(e, P.Blend):
        return f"blend({print_expr(e.a)}, {print_expr(e.b)}, {e.active})"
    if isinstance(e, E.Binary):
        if e.op in _INFIX:
            return f"({print_expr(e.a)} {_INFIX[e.op]} {print_expr(e.b)})"
        return f"{e.op}({print_expr(e.a)}, {print_expr(e.b)})"
    if isinstance(e, E.Compare):
        return f"({print_expr(e.a)} {_RELATION[e.op]} {print_expr(e.b)})"
    if isinstance(e, (E.Cast, E.Bitcast)):
        return f"{type(e).__name__.lower()}_{_type(e.dtype, e.lanes)}({print_expr(e.a)})"
    if isinstance(e, E.Reduce):
        inner = ", ".join(print_expr(c) for c in e.children())
        return f"{e.combiner}({inner} over {', '.join(a.name for a in e.axes)})"
    name = e.op if isinstance(e, E.Unary) else type(e).__name__.lower()
    return f"{name}({', '.join(print_expr(c) for c in e.children())})"
