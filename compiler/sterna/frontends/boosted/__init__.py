"""The front end of gradient boosted trees: the model files of XGBoost (JSON and UBJSON) and of LightGBM (text)."""

from sterna.frontends.boosted.model import Boosted
from sterna.frontends.boosted.reader import graph_of, library_of, load, read

__all__ = ["Boosted", "graph_of", "library_of", "load", "read"]
