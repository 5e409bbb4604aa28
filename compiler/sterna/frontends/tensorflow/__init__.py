"""TensorFlow's models: frozen graphs, SavedModels, and TensorFlow.js graph models."""
