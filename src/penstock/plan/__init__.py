"""Plans: a graph cut into segments, each of which is one generated loop."""
