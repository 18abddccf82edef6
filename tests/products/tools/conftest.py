"""Others' software at the other end: CASA, xradio and dask-ms, which have an environment of their own (`make test-tools`)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

#: Absolute, as it runs elsewhere.
PYTHON = Path(os.environ.get("RYLE_TOOLS", Path(__file__).parents[3] / ".venv-tools")).absolute() / "bin" / "python"

#: CASA would fetch its tables, and write where the user's are.
SITE = """
import os
import casadata
datapath = [os.environ.get("CASADATA", casadata.datapath)]
measurespath = datapath[0]
measures_auto_update = data_auto_update = False
nologger = nogui = True
logfile = os.devnull
"""


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.tools)


@pytest.fixture
def tool(tmp_path):
    """Run Python code with others' packages, in a directory of its own; gives what it leaves in `answer`."""
    if not PYTHON.exists():
        pytest.skip("CASA, xradio and dask-ms are not installed: `make test-tools` does")
    (tmp_path / "site.py").write_text(SITE)

    def run(code: str, *, packages: str, **environment: str):
        found = subprocess.run(
            [PYTHON, "-c", f"import {packages}"], cwd=tmp_path, env=env(), capture_output=True, text=True
        )
        if found.returncode:
            pytest.skip(f"{packages} cannot be imported here: {found.stderr.strip().splitlines()[-1]}")
        script = f"import json\n{code}\njson.dump(answer, open('answer.json', 'w'), default=float)\n"
        done = subprocess.run(
            [PYTHON, "-c", script], cwd=tmp_path, env=env() | environment, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return json.loads((tmp_path / "answer.json").read_text())

    def env() -> dict[str, str]:
        return os.environ | {
            "HOME": str(tmp_path),
            "CASASITECONFIG": str(tmp_path / "site.py"),
            "PYTHONWARNINGS": "ignore",
        }

    return run
