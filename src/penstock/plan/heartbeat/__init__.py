"""Heartbeats: how long a sender may be silent before it must report how far it has come, and why that is safe."""
