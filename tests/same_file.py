"""All that an HDF5 file holds, to compare two of them bit for bit."""

import h5py
import numpy as np


def contents(path):
    """Type, layout and bytes of each dataset, by name."""
    found = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset):
            value = item[()]
            layout = (item.shape, item.maxshape, item.chunks, item.compression, item.compression_opts)
            found[name] = (
                item.dtype.str,
                layout,
                np.asarray(value).tolist() if item.dtype.kind == "O" else value.tobytes(),
            )

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def assert_same(a, b):
    """Two files are equal in everything that they hold, and in how."""
    one, other = contents(a), contents(b)
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
