"""Code generation: the loop of each segment of a plan, as source text and a description of what it must be given."""
