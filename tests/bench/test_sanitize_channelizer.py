"""The F-engine's kernels as a sanitizer sees them run: right, and found wrong where they are."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench import sanitize_channelizer as sanitize


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(sanitize, "open_gpu", EmulatedGpu)
    monkeypatch.setattr(sanitize, "SHAPES", ((64, 4, 10),))


def test_all_forms_are_right(capsys):
    with pytest.raises(SystemExit) as ended:
        sanitize.main("")
    told = capsys.readouterr().out
    assert ended.value.code == 0 and told.count(": right") == len(sanitize.LAYOUTS)


def test_what_is_wrong_is_found(capsys, monkeypatch):
    process = sanitize.CudaChannelizer.process

    def wrong(self, *about, **more):
        spectra = process(self, *about, **more)
        values = np.asarray(spectra.data).view(np.int8).reshape(-1)
        values[len(values) // 2] ^= 4
        return spectra

    monkeypatch.setattr(sanitize.CudaChannelizer, "process", wrong)
    with pytest.raises(SystemExit) as ended:
        sanitize.main("K-blocks")
    assert ended.value.code == 1 and capsys.readouterr().out.count("WRONG") == 1
