import pytest

from ryle.gpu import gpu_problem, open_gpu


@pytest.fixture(autouse=True)
def no_kernels_kept(tmp_path_factory, monkeypatch):
    """Compile anew in every run: what an earlier one left must not decide a test."""
    monkeypatch.setenv("RYLE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def gpu():
    problem = gpu_problem()
    if problem:
        pytest.skip(f"needs an NVIDIA GPU: {problem}")
    return open_gpu()
