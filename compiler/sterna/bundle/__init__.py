"""The bundle: what a compiled model is on disk. docs/bundle.md is its specification."""
