"""A plain katcp client steers with MeerKAT's request names."""

import asyncio
from fractions import Fraction

import aiokatcp
import numpy as np
import pytest

from ryle.serve.katcp import KatcpServer
from ryle.serve.telescope import Telescope
from ryle.watch.sight import Alarm, InputSight, Sight

STREAM = "antenna-channelised-voltage"


class Seen:
    """A watcher that sees what it is told."""

    observation = None

    def __init__(self, sight):
        self.now = sight

    def sight(self):
        return self.now


def talk(sight, conversation):
    """Have a client of aiokatcp talk to a server."""

    async def both():
        with Telescope() as telescope:
            server = KatcpServer(telescope, Seen(sight), "127.0.0.1", 0)
            await server.start()
            try:
                client = await aiokatcp.Client.connect(*server.sockets[0].getsockname())
                async with asyncio.timeout(60):
                    await conversation(client)
                client.close()
                await client.wait_closed()
            finally:
                await server.stop()

    asyncio.run(both())


async def refused(client, *request):
    with pytest.raises(aiokatcp.FailReply) as error:
        await client.request(*request)
    return str(error.value)


def test_gains_and_delays(engines, rng):
    a, b = engines(0, range(0, 4), 1000), engines(1, range(4, 20), 1000)
    o = a.o
    channels, antenna = o.fengine.channels, o.antennas[2].name
    gains = rng.normal(size=channels) + 1j * rng.normal(size=channels)
    models = rng.normal(size=(20, 4)) * 1e-9
    sync = Fraction(1774036800)  # 2026-03-20T20:00:00Z

    async def conversation(client):
        assert str(o.observation.sync_time).startswith("2026-03-20T20:00:00")
        reply, _ = await client.request("gain", STREAM, "1", "0.5-1j")
        assert [complex(aiokatcp.decode(str, r)) for r in reply] == [0.5 - 1j]
        await client.request("gain", STREAM, f"{antenna}_y", *(f"{g.real}{g.imag:+}j" for g in gains))
        key, asked = b.asked[-1]
        assert key == "gains" and asked["inputs"] == [5]
        np.testing.assert_array_equal(asked["gains"], gains[np.newaxis].astype(np.complex64))
        await client.request("gain-all", STREAM, "3")
        assert (a.asked[-1][1]["gains"] == 3).all() and b.asked[-1][1]["gains"].shape == (16, 1)
        await client.request("gain-all", STREAM, "default")
        np.testing.assert_array_equal(a.asked[-1][1]["gains"], o.gains[:4])
        texts = [f"{d!r},{r!r}:{p!r},{q!r}" for d, r, p, q in models.tolist()]
        await client.request("delays", STREAM, float(sync + 100), *texts)
        sample = 100 * int(o.sample_rate)
        assert a.asked[-1][1]["sample"] == b.asked[-1][1]["sample"] == a.asked[-1][1]["start"] == sample
        np.testing.assert_array_equal(np.concatenate([a.asked[-1][1]["models"], b.asked[-1][1]["models"]]), models)
        (_, reading) = await client.request("sensor-value", "steady-state-timestamp")
        assert reading[0].arguments[4] == str(sample).encode()
        # What begins in the past holds as soon as it can, from where it would be now.
        await client.request("delays", STREAM, float(sync), *texts)
        assert a.asked[-1][1]["start"] == 0 and a.asked[-1][1]["sample"] >= 1000
        count = len(a.asked) + len(b.asked)
        assert "no input 'nobody'" in await refused(client, "gain", STREAM, "nobody", "1")
        assert "complex" in await refused(client, "gain", STREAM, "1", "one")
        assert "finite" in await refused(client, "gain", STREAM, "1", "nan")
        assert "do not fit" in await refused(client, "gain", STREAM, "1", "1", "2")
        assert "20 inputs" in await refused(client, "delays", STREAM, float(sync + 100), *texts[1:])
        assert "no delay model" in await refused(client, "delays", STREAM, float(sync + 100), *["1,2,3,4"] * 20)
        assert "finite" in await refused(client, "delays", STREAM, float(sync + 100), *["nan,0:0,0"] * 20)
        assert "sync_time" in await refused(client, "delays", STREAM, 1.0, *texts)
        assert len(a.asked) + len(b.asked) == count

    talk(Sight(0.0), conversation)


def test_gains_are_read(engines):
    a = engines(0, range(0, 20), 1000)
    a.o.gains[3] *= np.arange(1, a.o.fengine.channels + 1)  # the demo's are the same on all channels

    async def conversation(client):
        reply, _ = await client.request("gain", STREAM, "2")
        assert [complex(aiokatcp.decode(str, r)) for r in reply] == [a.o.gains[2, 0]]
        reply, _ = await client.request("gain", STREAM, "3")
        found = np.array([complex(aiokatcp.decode(str, r)) for r in reply])
        np.testing.assert_array_equal(found.astype(np.complex64), a.o.gains[3])
        assert "no input 'nobody'" in await refused(client, "gain", STREAM, "nobody")

    talk(Sight(0.0), conversation)


def test_capture_start_and_stop(engines, tmp_path):
    """Of the file: what is so already is done, and changes nothing."""
    a, catcher = engines(0, range(0, 20), 1000), engines.catcher(0, tmp_path, 700)
    sync = 1774036800

    async def conversation(client):
        await client.request("capture-start", "baseline-correlation-products")
        assert not catcher.asked
        await client.request("capture-stop", "baseline-correlation-products")
        assert catcher.asked == [{"write": False}]
        _, (reading,) = await client.request("sensor-value", "steady-state-timestamp")
        assert reading.arguments[4] == b"700"
        await client.request("capture-stop", "baseline-correlation-products")
        await client.request("capture-start", "baseline-correlation-products", float(sync + 2))
        assert catcher.asked[1:] == [{"write": True, "sample": 2 * int(a.o.sample_rate)}]
        await client.request("capture-stop", "baseline-correlation-products", float(sync + 3))
        assert "late" in await refused(client, "capture-start", "baseline-correlation-products", float(sync))

    talk(Sight(0.0), conversation)


def test_sensors():
    """Of inputs, as far as they are known; the state follows the alarms."""
    inputs = (
        InputSight(0, "A0", "x", rms=30.0, dbfs=-21.5, clipped=0.0, delay=1.5e-6),
        InputSight(1, "A0", "y"),
    )
    alarms = (Alarm("dead", "A0 y", "error", "is dead", "look", 1.0), Alarm("loss", "F", "warning", "t", "c", 1.0, 2.0))

    async def conversation(client):
        _, readings = await client.request("sensor-value")
        found = {r.arguments[2].decode(): (r.arguments[3].decode(), r.arguments[4].decode()) for r in readings}
        assert found["device-status"] == ("error", "fail")
        assert found["A0_x.dig-rms-dbfs"] == ("nominal", "-21.5")
        assert float(found["A0_x.delay"][1]) == 1.5e-6
        assert not any(name.startswith("A0_y") for name in found)

    talk(Sight(5.0, inputs=inputs, alarms=alarms), conversation)
    talk(Sight(5.0, inputs=inputs, alarms=alarms[1:]), healthy)


async def healthy(client):
    _, (reading,) = await client.request("sensor-value", "device-status")
    assert reading.arguments[4] == b"ok"
