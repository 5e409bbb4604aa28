"""ONNX Runtime's own operators (com.microsoft) that carry a state from token to token."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends.onnx.operators.attention import part
from sterna.frontends.onnx.operators.convolution import TRANSLATORS as CONVOLUTIONS
from sterna.frontends.onnx.operators.microsoft import plain
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir.graph import Value

_RULES = ("linear", "gated", "delta", "gated_delta")


def causal_convolution(t: Translation) -> tuple[Value | None, ...]:
    """Each channel by its own kernel, over what came before and is there, and the last of it, which is carried on."""
    x, weight = t.input(0), t.input(1)
    if t.attribute("ndim", 1) != 1 or any(
        t.attribute(name, 0) for name in ("channels_last", "state_channels_last", "state_window", "state_length",
                                          "input_channel_offset", "input_channels", "state_update_capacity")
    ):  # fmt: skip
        raise t.unsupported("of several dimensions, with channels last, or with a window of states")
    batch, channels, _ = x.shape
    _, _, taps = t.sizes(weight, 3)
    reach = (taps - 1) * t.attribute("dilation", 1)
    kind = t.attribute("activation", "none")
    if kind not in ("none", "", "silu", "swish"):
        raise t.unsupported(f"with the activation {kind}")
    past = t.optional(3)
    if past is None:
        past = t.op("expand", t.scalar(0, x.dtype), shape=(batch, channels, reach))
    whole = t.op("concat", past, x, axis=2) if reach else x
    inner = plain(t, [whole, weight, t.optional(2)], group=t.extent(weight, 0), dilations=(t.attribute("dilation", 1),))
    y = CONVOLUTIONS["Conv"](inner)
    assert isinstance(y, Value)
    if kind in ("silu", "swish"):
        y = t.op("mul", y, t.op("sigmoid", y))
    return y, part(t, whole, 2, whole.shape[2] - reach, reach), None


def linear_attention(t: Translation) -> tuple[Value | None, ...]:
    """A matrix for each head that every token changes, and reads: token after token, as the definition has it.

    Decays and rates are (batch, tokens, heads), or decays (batch, tokens, heads times keys).
    """
    if t.attribute("state_window", 0):
        raise t.unsupported("with a window of states")
    rule = t.attribute("update_rule", "gated_delta")
    many, few = t.attribute("q_num_heads", 0), t.attribute("kv_num_heads", 0)
    if rule not in _RULES or many < 1 or few < 1 or many % few:
        raise error("E0109", f"{t.kind} by {rule} of {many} and {few} heads")
    query, key, value = (t.cast(t.input(n), "float32") for n in range(3))
    batch, length, _ = query.shape
    depth, size = t.extent(key, -1), t.extent(value, -1) // few
    if depth % (t.extent(query, -1) // many):
        raise error("E0108", f"{t.kind} of {query.type} by {key.type}")
    width = t.extent(query, -1) // many
    keys = depth // width
    if few % keys:
        raise error("E0108", f"{t.kind} of {keys} heads of keys for {few} of values")
    count = t.extent(query, 1)
    scale = t.attribute("scale", 0.0) or 1 / math.sqrt(width)

    def heads(x: Value, n: int, wide: int) -> Value:
        """(tokens, batch, heads, elements)."""
        return t.transpose(t.reshape(x, (batch, length, n, wide)), (1, 0, 2, 3))

    def as_many(x: Value, n: int, wanted: int) -> Value:
        if n == wanted:
            return x
        shape = (*x.shape[:2], n, wanted // n, x.shape[3])
        spread = t.op("expand", t.reshape(x, (*x.shape[:3], 1, x.shape[3])), shape=shape)
        return t.reshape(spread, (*x.shape[:2], wanted, x.shape[3]))

    q, k, v = heads(query, many, width), as_many(heads(key, keys, width), keys, few), heads(value, few, size)
    decay = rate = None
    if "gated" in rule:
        given = t.cast(t.input(4), "float32")
        decay = t.op("exp", heads(given, few, t.extent(given, -1) // few))
    if "delta" in rule:
        given = t.cast(t.input(5), "float32")
        rate = as_many(heads(given, t.extent(given, -1), 1), t.extent(given, -1), few)
    state = t.optional(3)
    if state is None:
        state = t.op("expand", t.scalar(0, "float32"), shape=(batch, few, width, size))
    state = t.cast(state, "float32")

    def at(x: Value, number: Value) -> Value:
        return t.reshape(t.op("gather", x, t.reshape(number, (1,)), axis=0), x.shape[1:])

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        (held,) = carried
        if decay is not None:
            own = at(decay, number)
            held = t.op("mul", held, t.reshape(own, (*own.shape, 1)))
        column, row = at(k, number), at(v, number)
        column = t.reshape(column, (*column.shape, 1))
        if rate is not None:
            known = t.op("reduce_sum", t.op("mul", held, column), axes=(2,), keep_dims=False)
            row = t.op("mul", t.op("sub", row, known), at(rate, number))
        held = t.op("add", held, t.op("mul", column, t.reshape(row, (batch, few, 1, size))))
        # Several heads of queries read the state of one head.
        asked = t.reshape(at(q, number), (batch, few, many // few, width))
        return [held], [t.reshape(t.op("matmul", asked, held), (batch, many, size))]

    (last,), (rows,) = t.repeat(count, [state], step)
    y = t.op("mul", rows, t.scalar(scale, "float32"))
    y = t.reshape(t.transpose(y, (1, 0, 2, 3)), (batch, length, many * size))
    return t.cast(y, t.input(0).dtype), t.cast(last, t.input(0 if t.optional(3) is None else 3).dtype)


MICROSOFT_TRANSLATORS: dict[str, Translator] = {
    "CausalConvWithState": causal_convolution,
    "LinearAttention": linear_attention,
}
