"""Numba: the one place where functions become machine code, and the loops that are written by hand."""

from penstock.kernels.locator import install

install()  # before the first kernel is defined
