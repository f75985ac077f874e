"""A graph as a running stream: on Structured Streaming, with its state in the state store, exactly once."""
