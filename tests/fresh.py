"""Random numbers, fresh in each run, that can be had again: RYLE_TEST_RNG=n gives a run those of the run that said n."""

import os
import secrets
import zlib
from collections import Counter

import numpy as np

#: Of the run, and of all its processes. A failed test says it.
SEED = int(os.environ.get("RYLE_TEST_RNG") or secrets.randbits(32))
os.environ["RYLE_TEST_RNG"] = str(SEED)
_drawn: Counter[str] = Counter()


def rng() -> np.random.Generator:
    """What is random in the test that asks: its own in each test and call, whichever other tests run."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    _drawn[test] += 1
    return np.random.default_rng([SEED, zlib.crc32(test.encode()), _drawn[test]])


def seed(bits: int = 32) -> int:
    """Return one random number below 2**bits, for what takes a seed."""
    return int(rng().integers(1 << bits))
