"""Graphs as models of other programs."""
