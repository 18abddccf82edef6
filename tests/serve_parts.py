"""Reads what the page gets, by the words of its description (ryle.serve.pictures), and no code of ours."""

import json
import struct

import numpy as np


def unpacked(data):
    """Read a part: its header, and its arrays by name."""
    size, version = struct.unpack_from("<II", data)
    assert version == 1 and size % 8 == 0
    header = json.loads(data[8 : 8 + size])
    at, arrays = 8 + size, {}
    for name, kind, shape in header["arrays"]:
        assert at % 8 == 0 and kind in ("<f8", "<f4", "<i2", "|u1")  # what feed.js knows
        arrays[name] = np.frombuffer(data, kind, int(np.prod(shape)), at).reshape(shape)
        at += -(-arrays[name].nbytes // 8) * 8
    assert at == len(data)
    return header, arrays
