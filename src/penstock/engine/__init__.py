"""The engine: runs the plan of a graph on data, in this process."""
