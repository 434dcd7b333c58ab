"""Enumeration on a GPU: the same chunks, the same results, walked elsewhere."""
