"""What operators ask of dimensions that stay open (`--dim seq=1..512`), for the documentation and for the tests.

`tests/ops/test_open_nodes.py` compiles a node of every operator with an open first dimension and holds it to this.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Operators whose operands must have one size each: the code of the error that says so.
CONSTANT_SIZES: Mapping[str, str] = {"CenterCropPad": "E0107"}

_WINDOWS = "with ceil_mode, no padding in front"
_CHANNELS = "channels are constant"
#: What must be constant although other dimensions may be open; each is refused with an error that names it.
LIMITS: Mapping[str, str] = {
    "AveragePool": _WINDOWS,
    "Col2Im": "channels and blocks are constant",
    "Conv": _CHANNELS,
    "ConvInteger": _CHANNELS,
    "ConvTranspose": f"{_CHANNELS}; no output_shape",
    "DFT": "the transformed axis is constant",
    "DeformConv": _CHANNELS,
    "Det": "the matrix is constant",
    "GRU": "the hidden size is constant",
    "LSTM": "the hidden size is constant",
    "LpPool": _WINDOWS,
    "MaxPool": _WINDOWS,
    "Pad": "reflect and wrap: no more than the least size",
    "RNN": "the hidden size is constant",
    "Resize": "no antialias, exclude_outside or keep_aspect_ratio_policy; no tf_crop_and_resize by sizes",
    "STFT": "the frame is constant",
    "TopK": "no more than the least size, unless computed from the data",
}


def open_sizes(operator: str) -> str:
    """What the documentation says of an operator and open dimensions."""
    if operator in CONSTANT_SIZES:
        return "no"
    return f"yes; {LIMITS[operator]}" if operator in LIMITS else "yes"
