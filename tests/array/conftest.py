from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh random numbers; pytest shows the seed when a test fails."""
    seed = np.random.SeedSequence().entropy
    print(f"random seed {seed}")
    return np.random.default_rng(seed)
