"""Ways between GPUs are checked before they are timed, on emulated ones."""

import pytest

from emulation import EmulatedGpu
from ryle.bench.exchange import Ways, measure
from ryle.bench.nccl import Nccl
from ryle.gpu import GpuUnavailable


class FakeNccl:
    """Copies what is sent to what is received, as NCCL would."""

    def exchange(self, sent, received, streams):
        for s, row in enumerate(sent):
            for d, array in enumerate(row):
                if array is not None:
                    array.copy_to(received[d][s])


@pytest.mark.parametrize("count", [2, 3])
def test_all_ways_move_the_same(count):
    ways = Ways([EmulatedGpu() for _ in range(count)], 5, 64, 128)
    rows = measure(ways, 0.02, 2, FakeNccl())
    assert len(rows) == 5 and all(row.value > 0 for row in rows) and rows[-1].ratio > 0
    assert ways.received * count == 2 * 5 * 64 * 2 * 128 * (count - 1) / count + rest(ways)


def rest(ways):
    """What uneven shares add: those of a GPU's own are not all alike."""
    own = sum(ways.slabs.nbytes(i, i) for i in range(ways.count))
    return 2 * 5 * 64 * 2 * 128 / ways.count - own


def test_what_is_wrong_is_seen():
    ways = Ways([EmulatedGpu(), EmulatedGpu()], 4, 64, 128)
    with pytest.raises(ArithmeticError, match="GPU 0 has not got what GPU 1 sent"):
        ways.check(lambda: ways.slabs.move(0, ways._made[0], 1, ways._room[1], ways.streams[1]), places=True)


def test_nccl_that_is_not_there(tmp_path):
    with pytest.raises(GpuUnavailable, match="NCCL cannot be loaded"):
        Nccl(tmp_path / "libnccl.so.2", [0, 1])
