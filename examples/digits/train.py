"""Trains the network of `sterna demo` and `sterna serve` and writes it as ONNX, with images to try it on.

    pip install scikit-learn onnx pillow
    python examples/digits/train.py

The data are 1797 handwritten digits of 8 x 8 pixels (Alpaydin and Kaynak, UCI, CC BY 4.0), and the strokes of 29 hands
in strokes.json with many slants and proportions, made into pixels as the page makes them (strokes.py). The network has
10 thousand weights: a 3 x 3 convolution, one of stride 2, and a dense layer, trained with NumPy alone in three minutes.
The same seed gives the same model, up to the rounding of the machine's matrix product.

Writes compiler/sterna/demo/digits.onnx and one image of every digit, none of which the network saw in training: as
.npy for the demo, and as .png beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from strokes import bent, seen

HERE = Path(__file__).resolve().parent
DEMO = HERE.parents[1] / "compiler" / "sterna" / "demo"

#: Drawings made of the strokes; of each batch, scanned digits and drawings.
DRAWN, SCANS, DRAWINGS = 20000, 24, 40
STEPS, RATE, DECAY = 10000, 2e-3, 1e-4
Weights = dict[str, np.ndarray]


def initial(random: np.random.Generator) -> Weights:
    """Weights such that activations keep their size (He et al., 2015); convolutions as [out, in, 3, 3]."""

    def normal(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    zeros = {f"{layer}.bias": np.zeros(n, np.float32) for layer, n in (("conv1", 16), ("conv2", 32), ("dense", 10))}
    return {
        "conv1.weight": normal(16, 1, 3, 3),
        "conv2.weight": normal(32, 16, 3, 3),
        "dense.weight": normal(10, 512),
        **zeros,
    }


def convolve(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """A 3 x 3 convolution with a border of one zero, and the patches that its gradient needs."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::stride, ::stride]  # [n, in, h, w, 3, 3]
    return np.einsum("nchwij,kcij->nkhw", patches, w, optimize=True) + b[:, None, None], patches


def convolve_back(
    grad: np.ndarray, patches: np.ndarray, w: np.ndarray, stride: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients with respect to the input, the weight and the bias."""
    spread = np.einsum("nkhw,kcij->ncijhw", grad, w, optimize=True)
    padded = np.zeros((*spread.shape[:2], size + 2, size + 2), np.float32)
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + size : stride, j : j + size : stride] += spread[:, :, i, j]
    weight = np.einsum("nkhw,nchwij->kcij", grad, patches, optimize=True)
    return padded[:, :, 1:-1, 1:-1], weight, grad.sum((0, 2, 3))


def forward(p: Weights, x: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Scores before softmax, and what the gradients need."""
    a, patches1 = convolve(x, p["conv1.weight"], p["conv1.bias"], 1)
    first = np.maximum(a, 0)
    b, patches2 = convolve(first, p["conv2.weight"], p["conv2.bias"], 2)
    second = np.maximum(b, 0)
    flat = second.reshape(len(x), -1)
    return flat @ p["dense.weight"].T + p["dense.bias"], (patches1, first, patches2, second, flat)


def gradients(p: Weights, x: np.ndarray, labels: np.ndarray) -> Weights:
    """Of the mean cross-entropy."""
    logits, (patches1, first, patches2, second, flat) = forward(p, x)
    grad = softmax(logits)
    grad[np.arange(len(x)), labels] -= 1
    grad /= len(x)
    g = {"dense.weight": grad.T @ flat, "dense.bias": grad.sum(0)}
    back = (grad @ p["dense.weight"]).reshape(second.shape) * (second > 0)
    back, g["conv2.weight"], g["conv2.bias"] = convolve_back(back, patches2, p["conv2.weight"], 2, 8)
    _, g["conv1.weight"], g["conv1.bias"] = convolve_back(back * (first > 0), patches1, p["conv1.weight"], 1, 8)
    return g


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def shifted(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Every image moved by at most one pixel in each direction."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = random.integers(0, 3, (len(x), 2))
    return np.stack([image[:, i : i + 8, j : j + 8] for image, (i, j) in zip(padded, moves, strict=True)])


def drawn(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Digits that are drawn, each in a way of its own, and what they are."""
    styles = json.loads((HERE / "strokes.json").read_text("utf-8"))
    strokes = [[np.array(stroke, np.float64) / 100 for stroke in style["strokes"]] for style in styles]
    chosen = random.integers(0, len(styles), count)
    images = [seen(bent(strokes[n], random, lean=0.2, turn=0.12, stretch=0.2, tremble=0.015)) for n in chosen]
    return np.stack(images)[:, None], np.array([styles[n]["digit"] for n in chosen])


def batches(
    scans: tuple[np.ndarray, np.ndarray], drawings: tuple[np.ndarray, np.ndarray], random: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images and labels, some of either kind; scans stand where they were scanned, so they are moved a little."""
    for _ in range(STEPS):
        a, b = random.integers(0, len(scans[0]), SCANS), random.integers(0, len(drawings[0]), DRAWINGS)
        yield (
            np.concatenate([shifted(scans[0][a], random), drawings[0][b]]),
            np.concatenate([scans[1][a], drawings[1][b]]),
        )


def train(data: Iterator[tuple[np.ndarray, np.ndarray]], random: np.random.Generator) -> Weights:
    """Adam (Kingma and Ba, 2015) with weight decay, its rate going down to zero along a cosine."""
    p = initial(random)
    mean = {k: np.zeros_like(v) for k, v in p.items()}
    square = {k: np.zeros_like(v) for k, v in p.items()}
    for step, (images, labels) in enumerate(data, 1):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * (step - 1) / STEPS))
        for k, g in gradients(p, images, labels).items():
            mean[k] += 0.1 * (g - mean[k])
            square[k] += 0.001 * (g * g - square[k])
            update = mean[k] / (1 - 0.9**step) / (np.sqrt(square[k] / (1 - 0.999**step)) + 1e-8)
            p[k] = (p[k] - rate * (update + DECAY * p[k])).astype(np.float32)
    return p


def to_onnx(p: Weights, description: str) -> onnx.ModelProto:
    """One image in, ten probabilities out."""

    def conv(x: str, y: str, layer: str, stride: int) -> onnx.NodeProto:
        return helper.make_node(
            "Conv", [x, f"{layer}.weight", f"{layer}.bias"], [y], name=layer,
            kernel_shape=[3, 3], strides=[stride, stride], pads=[1, 1, 1, 1],
        )  # fmt: skip

    nodes = [
        conv("image", "conv1.out", "conv1", 1),
        helper.make_node("Relu", ["conv1.out"], ["relu1.out"], name="relu1"),
        conv("relu1.out", "conv2.out", "conv2", 2),
        helper.make_node("Relu", ["conv2.out"], ["relu2.out"], name="relu2"),
        helper.make_node("Flatten", ["relu2.out"], ["flat"], name="flatten", axis=1),
        helper.make_node("Gemm", ["flat", "dense.weight", "dense.bias"], ["logits"], name="dense", transB=1),
        helper.make_node("Softmax", ["logits"], ["scores"], name="softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(p[name], name) for name in sorted(p)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="sterna-examples")
    model.ir_version = 8
    model.doc_string = description
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    random = np.random.default_rng(7)
    data = load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    order = random.permutation(len(images))
    test, rest = order[:360], order[360:]
    p = train(batches((images[rest], data.target[rest]), drawn(DRAWN, random), random), random)
    answers = forward(p, images[test])[0].argmax(1)
    right = answers == data.target[test]
    print(f"{right.mean():.2%} of {len(test)} test images")
    if right.mean() < 0.985:
        raise SystemExit("that is too few; the model is not written")
    (DEMO / "images").mkdir(parents=True, exist_ok=True)
    weights = sum(w.size for w in p.values())
    share = f"{right.mean():.1%} of {len(test)}"
    description = f"{weights:,} weights, right on {share} digits it was not trained on"
    onnx.save(to_onnx(p, description), DEMO / "digits.onnx")
    for digit in range(10):
        first = next(n for n in test if data.target[n] == digit)
        np.save(DEMO / "images" / f"{digit}.npy", images[first : first + 1])
        Image.fromarray(np.round(images[first, 0] * 255).astype(np.uint8)).save(HERE / f"{digit}.png")
    print(f"wrote {DEMO / 'digits.onnx'} ({(DEMO / 'digits.onnx').stat().st_size} bytes)")


if __name__ == "__main__":
    main()
