"""Measurements of what a machine can sustain, each against a named baseline timed in the same process.

`fengine` and `xengine` time the arithmetic, `fx` the two together as one process runs them; `cpu` repeats them in fresh
processes and makes the table and the file of results.
"""
