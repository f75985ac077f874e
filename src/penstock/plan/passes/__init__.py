"""The passes that make a plan: each goes from plan to plan, and adds what it decides."""
