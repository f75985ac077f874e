"""Pictures and pages drawn from graphs, plans and statistics."""
