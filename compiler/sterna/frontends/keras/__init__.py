"""Keras: models of version 3, of version 2, and layers models of TensorFlow.js."""
