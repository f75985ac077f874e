"""The applications of the papers, one file each, written with the public API only.

Every application has `build` (the stream), `generate` (a data set of any size, the same for the same seed), `read` (a
data set as a stream) and `reference` (the answer by the plainest Python). Three more are in `penstock.examples`. From
the folder above this one, `penstock run examples.cfar` runs one.
"""
