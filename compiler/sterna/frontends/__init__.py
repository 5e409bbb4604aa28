"""Readers of model files: each turns one format into a `Graph` and only translates."""
