"""Caffe: a description of layers (`.prototxt`), and their weights beside it (`.caffemodel`)."""
