"""The passes that make a plan, each in a file of its own."""
