"""What MXNet calls the results of a symbol: `softmax_output`, of several `split_output0`, `lstm_state`."""

from __future__ import annotations

from sterna.frontends.mxnet.symbol import VARIABLE, NodeInfo, SymbolInfo

_ONE = ("BatchNorm", "BatchNorm_v1", "LayerNorm", "InstanceNorm", "GroupNorm", "Dropout", "_npx_batch_norm")


def output_names(symbol: SymbolInfo) -> list[str]:
    """Names of the outputs, as `list_outputs` gives them; with a number after those that stand there twice."""
    names: list[str] = []
    for number, result in symbol.heads:
        node = symbol.nodes[number]
        wanted = node.name if node.op == VARIABLE else f"{node.name}_{_suffix(symbol, number, node, result)}"
        name, count = wanted, 0
        while name in names:
            count += 1
            name = f"{wanted}.{count}"
        names.append(name)
    return names


def _suffix(symbol: SymbolInfo, number: int, node: NodeInfo, result: int) -> str:
    if node.op in _ONE:
        return ("output", "mean", "var")[result] if result < 3 else f"output{result}"
    if node.op == "RNN":
        return ("output", "state", "state_cell")[result] if result < 3 else f"output{result}"
    used = [head[1] for head in symbol.heads if head[0] == number]
    used += [place[1] for each in symbol.nodes for place in each.inputs if place[0] == number]
    settings = node.settings
    count = settings.get("num_outputs", (settings.get("ret_typ") == "both" and "2") or "1")
    return f"output{result}" if max(used) > 0 or count not in ("1",) else "output"
