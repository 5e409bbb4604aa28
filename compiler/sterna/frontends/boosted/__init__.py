"""The front end of gradient boosted trees: the model files of XGBoost (JSON and UBJSON) and of LightGBM (text)."""

from sterna.frontends.boosted.reader import library_of, read

__all__ = ["library_of", "read"]
