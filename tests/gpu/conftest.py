from pathlib import Path

import pytest

from ryle.gpu import gpu_problem, open_gpu


def pytest_collection_modifyitems(items):
    """Skip what needs a GPU where there is none, and say why, once."""
    here = [item for item in items if Path(__file__).parent in item.path.parents and "gpu" in item.fixturenames]
    if here and (problem := gpu_problem()):
        for item in here:
            item.add_marker(pytest.mark.skip(reason=f"needs an NVIDIA GPU: {problem}"))


@pytest.fixture(autouse=True)
def no_kernels_kept(tmp_path_factory, monkeypatch):
    """Compile anew in every run: what an earlier one left must not decide a test."""
    monkeypatch.setenv("RYLE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def gpu():
    return open_gpu()
