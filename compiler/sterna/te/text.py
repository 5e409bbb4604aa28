"""Value expressions as text; fully bracketed."""

from __future__ import annotations

from sterna.te import expr as E

#: Operators, of text here and of the languages that kernels are printed in.
INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}
RELATION = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}


def type_text(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def position_text(index: object, lanes: int, stride: int, active: int | None, rows: int = 0, pitch: int = 0) -> str:
    """An element offset and the elements from there on."""
    if rows:
        return f"{index} : {rows} x {lanes // rows} pitch {pitch}"
    if lanes == 1:
        return str(index)
    text = f"{index} : {lanes if active is None else active}"
    return text if stride == 1 else f"{text} step {stride}"


def print_expr(e: E.Expr) -> str:
    """One value. Nodes of other levels print themselves through a method `text`."""
    if isinstance(e, E.Const):
        return (
            f"{e.value!r}" + ("" if e.dtype == "float32" else f":{e.dtype}") + (f" x{e.lanes}" if e.lanes > 1 else "")
        )
    if isinstance(e, E.IndexValue):
        return f"{e.dtype}({e.index})" + (f" x{e.lanes} step {e.stride}" if e.lanes > 1 else "")
    if isinstance(e, E.Load):
        position = (
            ", ".join(map(str, e.indices))
            if len(e.indices) != 1
            else position_text(e.indices[0], e.lanes, e.stride, e.active, e.rows, e.pitch)
        )
        tail = "" if e.active is None else f" of {e.lanes}"
        return f"{e.tensor.name}[{position}{tail}]"
    if isinstance(e, E.Binary):
        if e.op in INFIX:
            return f"({print_expr(e.a)} {INFIX[e.op]} {print_expr(e.b)})"
        return f"{e.op}({print_expr(e.a)}, {print_expr(e.b)})"
    if isinstance(e, E.Compare):
        return f"({print_expr(e.a)} {RELATION[e.op]} {print_expr(e.b)})"
    if isinstance(e, (E.Cast, E.Bitcast)):
        return f"{type(e).__name__.lower()}_{type_text(e.dtype, e.lanes)}({print_expr(e.a)})"
    if isinstance(e, E.Reduce):
        inner = ", ".join(print_expr(c) for c in e.children())
        return f"{e.combiner}({inner} over {', '.join(f'{a.name} < {a.extent}' for a in e.axes)})"
    if isinstance(e, E.Nearest):
        return f"nearest_{type_text(e.dtype, e.lanes)}({print_expr(e.a)}, {e.zero})"
    if (own := e.text(print_expr)) is not None:
        return own
    name = e.op if isinstance(e, E.Unary) else type(e).__name__.lower()
    return f"{name}({', '.join(print_expr(c) for c in e.children())})"
