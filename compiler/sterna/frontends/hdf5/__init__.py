"""A reader of HDF5 files, in Python: what Keras keeps weights in.

It follows the HDF5 File Format Specification, version 3.0. Files are untrusted: every address is checked against the
file, no block is visited twice, and what is read in all is bounded by the size of the file (`storage.py`), so that a
damaged file ends in a coded error. HDF5's own library crashes and hangs on some of them.
"""
