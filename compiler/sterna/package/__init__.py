"""Bundles as packages of other ecosystems."""
