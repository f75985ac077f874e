"""The logical graph: streams, nodes, schemas, and the interpreter that says what they mean."""
