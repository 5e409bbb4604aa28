"""Older forms of Caffe's descriptions in today's."""

from __future__ import annotations

from sterna.frontends.caffe.prototxt import Message

#: Types of version 1 whose words are not just run together.
_TYPES = {
    "ABSVAL": "AbsVal", "ARGMAX": "ArgMax", "BNLL": "BNLL", "HDF5_DATA": "HDF5Data", "HDF5_OUTPUT": "HDF5Output",
    "IM2COL": "Im2col", "INNER_PRODUCT": "InnerProduct", "LRN": "LRN", "MVN": "MVN", "RELU": "ReLU", "TANH": "TanH",
    "PRELU": "PReLU", "ELU": "ELU", "SOFTMAX_LOSS": "SoftmaxWithLoss", "SPP": "SPP", "LSTM": "LSTM", "RNN": "RNN",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
}  # fmt: skip
#: Types of version 0: today's, its settings' message, and where each setting went.
_COMMON = {
    "num_output": "num_output", "biasterm": "bias_term", "pad": "pad", "kernelsize": "kernel_size", "stride": "stride",
    "group": "group",
}  # fmt: skip
_OLD: dict[str, tuple[str, str, dict[str, str]]] = {
    "conv": ("Convolution", "convolution_param", _COMMON),
    "innerproduct": ("InnerProduct", "inner_product_param", _COMMON),
    "pool": ("Pooling", "pooling_param", {**_COMMON, "pool": "pool"}),
    "relu": ("ReLU", "relu_param", {}),
    "sigmoid": ("Sigmoid", "sigmoid_param", {}),
    "tanh": ("TanH", "tanh_param", {}),
    "bnll": ("BNLL", "bnll_param", {}),
    "dropout": ("Dropout", "dropout_param", {}),
    "softmax": ("Softmax", "softmax_param", {}),
    "softmax_loss": ("SoftmaxWithLoss", "softmax_param", {}),
    "flatten": ("Flatten", "flatten_param", {}),
    "split": ("Split", "split_param", {}),
    "accuracy": ("Accuracy", "accuracy_param", {}),
    "concat": ("Concat", "concat_param", {"concat_dim": "concat_dim"}),
    "lrn": ("LRN", "lrn_param", {"local_size": "local_size", "alpha": "alpha", "beta": "beta", "k": "k"}),
    "data": ("Data", "data_param", {}),
    "images": ("ImageData", "image_data_param", {}),
}


def type_of_version_1(kind: str) -> str:
    """A type as today's descriptions write it: `INNER_PRODUCT` is `InnerProduct`."""
    if kind in _TYPES:
        return _TYPES[kind]
    if kind and kind.upper() == kind and not kind[0].isdigit() and len(kind) > 3:
        return "".join(word.capitalize() for word in kind.split("_"))
    return kind


def of_version_0(outer: Message, inner: Message) -> Message:
    """A layer of version 0 in today's form."""
    kind, group, settings = _OLD.get(inner.text("type"), (inner.text("type"), "", {}))
    made = Message()
    made.fields = {"bottom": outer.all("bottom"), "top": outer.all("top"), "name": inner.all("name"), "type": [kind]}
    own = Message()
    own.fields = {new: inner.fields[old] for old, new in settings.items() if old in inner.fields}
    made.fields[group or "param"] = [own]
    return made
