"""The loop program: what code generators render, and the passes that lead from a schedule to it."""
