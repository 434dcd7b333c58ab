"""Many certificates at once: cells and jobs, where they run, and what is kept of their answers."""
