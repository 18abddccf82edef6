"""What four papers published of their correlators, beside what Ryle measures the same way.

The papers' tables and figures are data: a TOML file a paper (`registry` reads and checks them), and `commands.toml`
says which commands measure the same here. `lookup` finds measured values in files of results, `verdicts` sets the two
side by side, `report` and `pictures` show it, and `measure` runs the commands that this machine can run.
"""

from ryle.bench.papers.bench import bench_papers

__all__ = ["bench_papers"]
