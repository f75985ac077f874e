"""Numba: the one place where functions become machine code, and the loops that are written by hand."""
