"""Time the CPU forms against their baselines: ``python bench/cpu.py [--json FILE]``; the same as ``ryle bench cpu``."""

import typer

from ryle.cli.bench import bench

if __name__ == "__main__":
    typer.run(bench)
