"""Attacks from outside, on real processes: closed pipes, hostile files, signals, full disks.

Each fault is a function that attacks, checks what is promised, and says what happened. ``python -m tests.faults``
prints all of them beside what was seen before they were mended.
"""
