"""Flexible filters: copies of a node on other cores take what its own has no room for, and the order is kept."""
