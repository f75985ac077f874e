"""Three applications of the papers, for `penstock apps`, `run` and `demo`, written with the public API only.

Every application has `build` (the stream), `generate` (a data set of any size, the same for the same seed), `read` (a
data set as a stream) and `reference` (the answer by the plainest Python).
"""
