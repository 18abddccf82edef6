"""Measurements of what a machine can sustain, each against a named baseline timed in the same process.

`fengine` and `xengine` time the arithmetic on a CPU, `fx` the two together as one process runs them; `cpu` repeats them
in fresh processes and makes the table and the file of results. `channelize` times the F-engine on a GPU beside
`three_kernels`, the form it is compared with, by `gpu_timing`; `measured` is what a channelizer must offer for that.
`precision` says how pure a form of the F-engine is.
"""
