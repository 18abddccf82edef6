"""The shape of every engine: blocks in rings, steps between rings, an engine that runs a list of steps."""
