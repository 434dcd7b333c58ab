"""Two classes: walks over all labellings, one flip at a time."""
