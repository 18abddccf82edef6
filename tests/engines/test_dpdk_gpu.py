"""F and X in one process on a GPU that reads payloads where DPDK's packets came to: sums, losses, every buffer back."""

import itertools

import pytest

import fresh
from dpdk_support import needs_dpdk, started
from emulation import EmulatedGpu
from emulation.deferred import DeferredGpu
from ryle.bench.dpdk_flow import Asked, Flow
from ryle.channelize import cuda
from ryle.correlate import cuda as correlate_cuda
from ryle.engines import budget, gpus
from ryle.engines.devices import fx_bytes
from ryle.engines.f_gpu import Channelize

pytestmark = needs_dpdk
_device = itertools.count(900)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that does everything as late as it may."""
    started()
    made = DeferredGpu(fresh.seed())
    monkeypatch.setattr(gpus, "open_gpu", lambda number: made)
    for module in (cuda, correlate_cuda):
        monkeypatch.setattr(module, "open_gpu", EmulatedGpu)
    return made


def asked(copies, **more):
    """Two antennas in slow motion: an emulated GPU makes a batch in tenths of a second."""
    sizes = {"antennas": 2, "channels": 64, "taps": 4, "batch": 256, "integration": 0.3, "queues": 2, "gbps": 0.01}
    sizes["skew"] = 5.0  # whatever the machine does meanwhile
    return Asked(copies=copies, device=f"net_null{next(_device)}", **(sizes | more))


@pytest.mark.parametrize("copies", [0, "host-table", 2])
def test_sums_are_those_of_the_pools_samples(gpu, copies, steady):
    def body():
        flow = Flow(asked(copies), gpu, 2.0)
        try:
            found = flow.run(60.0)
            lost = ("lost", "missing", "no_buffer", "starved", "ring_full")
            assert not any(found[name] for name in lost), found
            assert found["made"] == found["placed"] == found["packets"] > 100 and found["integrations"] > 3
            assert found["buffers_back"]
            if copies != 2:  # in which nobody says which buffer a payload was copied from
                compared, equal = flow.equal()
                assert compared >= 2 and equal
        finally:
            flow.close()

    steady(body)


def test_sums_are_compared_where_samples_that_are_not_read_by_address_take_another_kernel(gpu, steady):
    """1024 channels, of which one kernel does all of samples in a row; it rounds otherwise than two kernels."""

    def body():
        flow = Flow(asked(0, channels=1024, batch=128, integration=1.2), gpu, 6.0)
        try:
            assert flow.run(120.0)["lost"] == 0
            compared, equal = flow.equal()
            assert compared >= 2 and equal
        finally:
            flow.close()

    steady(body)


def test_the_gpu_is_awake_before_packets_are_taken(gpu, monkeypatch):
    flow = Flow(asked(0), gpu, 1.0)
    (channelize,) = (step for step in flow.engine.steps if isinstance(step, Channelize))
    order, launch, start = [], channelize._launch, flow.source.start
    monkeypatch.setattr(channelize, "_launch", lambda *a: (order.append("batch"), launch(*a))[1])
    monkeypatch.setattr(flow.source, "start", lambda: (order.append("packets"), start())[1])
    try:
        flow.run(60.0)
        assert order.index("packets") >= 2 and order.count("batch") > order.index("packets")
    finally:
        flow.close()


def test_sums_differ_if_a_payload_does(gpu):
    """So that the comparison is one."""
    flow = Flow(asked(0), gpu, 1.0)
    try:
        flow.run(60.0)
        table = flow.record.tables[len(flow.record.tables) // 2][1]
        table[0, 0], table[1, 0] = table[1, 0], table[0, 0]
        _, equal = flow.equal()
        assert not equal
    finally:
        flow.close()


@pytest.mark.parametrize("copies", [0, "host-table"])
def test_what_is_stated_is_what_pools_have(gpu, copies):
    flow = Flow(asked(copies), gpu, 1.0)
    try:
        pools = flow.source.payload_pools
        held = sum(p.memory.nbytes if p.memory is not None else p.device_memory.nbytes for p in pools)
        assert 0 <= held - budget.packet_buffers(flow.o, "fx") <= 65536 * len(pools)  # whole pages
        on_host = sum(m.bytes for m in budget.memory(flow.o) if "packet buffers" in m.name)
        assert on_host == (budget.packet_buffers(flow.o, "fx") if copies else 0)
        assert (fx_bytes(flow.o) > budget.packet_buffers(flow.o, "fx")) == (copies == 0)
    finally:
        flow.close()


def test_what_cores_cannot_write_to_is_refused_before_anything_is_opened(gpu):
    with pytest.raises(OSError, match=r"receive\.copies = 1"):
        Flow(asked(1), gpu, 1.0)
