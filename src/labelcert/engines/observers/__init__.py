"""Questions that a walk answers beside radii and the curve, one file each."""
