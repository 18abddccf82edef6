"""Two HDF5 files are equal in everything that they hold, and in how."""

from ryle.bench.same_file import differing


def assert_same(a, b):
    found = differing(a, b)
    assert found == [], found
