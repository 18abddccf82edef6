"""What an observation file may say, but its writer may not have meant."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator

import erfa
import numpy as np

from ryle.config import rates
from ryle.config.endpoints import Sender, run_of
from ryle.config.observation import Engine, Observation
from ryle.config.runs import digitizer_runs, visibilities_run
from ryle.config.units import show
from ryle.problems import Problem, listed

_C = 299792458.0
#: Of X-heaps in MeerKAT's layout.
FOREIGN_X_HEAPS = "Ryle's catcher does not read MeerKAT's X-heaps: no file is written, they are for another reader"
_EPHEMERAL = range(32768, 61000)  # Linux's default range of ports for outgoing connections


def cautions(o: Observation) -> list[Problem]:
    """Find what works but is probably not meant; each with key, value and what to think of.

    What this computer lacks is for `ryle.engines.devices.gpu_cautions` to say.
    """
    finders = (_delays, _levels, _packets, _ports, _buffers, _gpus, _cores, _senders, _integration, _summed, _ends)
    return [caution for find in (*finders, _foreign_heaps) for caution in find(o)]


def largest_delay(o: Observation) -> float:
    """Largest delay in s that any antenna can need: distance from the array's location over c, plus cable delay."""
    here = o.array.location
    if here.itrf is not None:
        origin = np.array(here.itrf)
    else:
        longitude, latitude = math.radians(here.longitude or 0.0), math.radians(here.latitude or 0.0)
        origin = erfa.gd2gc(1, longitude, latitude, here.height or 0.0)  # 1: WGS84
    largest = 0.0
    for antenna in o.antennas:
        offset = np.array(antenna.enu) if antenna.enu is not None else np.array(antenna.itrf) - origin
        cable = max((abs(d) for d in antenna.cable_delay), default=0.0)
        largest = max(largest, float(np.linalg.norm(offset)) / _C + cable)
    return largest


def _delays(o: Observation) -> Iterator[Problem]:
    needed = largest_delay(o)
    if o.phase_centre is not None and o.channelizes and o.fengine.max_delay < needed:
        advice = (
            f"antennas can need up to {show(needed, 's')}: sources low in the sky cannot be tracked; set at least that"
        )
        yield Problem("fengine.max_delay", show(o.fengine.max_delay, "s"), advice)


def _levels(o: Observation) -> Iterator[Problem]:
    gain, bits = o.fengine.gain, o.fengine.output_bits
    if not o.channelizes and o.simulate is None:
        return  # others' gains
    if bits == 4 and gain == 1 and o.fengine.gains_file is None:
        yield Problem(
            "fengine.gain", gain, "4-bit output wants values of rms near 3 in each part: set the gain for that"
        )
    if o.simulate is None or o.digitizer.complex or o.digitizer.bits == 32:
        return
    rms, top = o.simulate.rms, 2 ** (o.digitizer.bits - 1)
    if o.digitizer.bits > 2 and 4 * rms > top:
        advice = f"{o.digitizer.bits}-bit samples end at {top}: noise beyond {top / rms:.2g} sigma saturates"
        yield Problem("simulate.rms", rms, advice)
    if o.levels is not None:
        rms = o.levels.rms(rms)
    part, top = rms * gain / math.sqrt(2), 127 if bits == 8 else 7
    best = (3.0 if bits == 4 else 20.0) * math.sqrt(2) / rms
    if o.fengine.gains_file is None and (part > top / 2 or part < 0.7):
        what = "saturates" if part > 1 else "is lost in rounding"
        advice = (
            f"noise of rms {part:.3g} in each part {what} in {bits}-bit output (±{top}); a gain near {best:.2g} suits"
        )
        yield Problem("fengine.gain", gain, advice)


def _packets(o: Observation) -> Iterator[Problem]:
    network = o.network
    where = {
        "digitizer stream": o.digitizer_endpoints(0)[0],
        "X-engine in": o.spectra_endpoint(0),
        "catcher in": network.visibilities,
    }
    ends = ((where[link.name], link) for link in rates.links(o) if link.name in where)
    largest = max((end for end in ends if not _loopback(end[0].host)), key=lambda end: end[1].datagram, default=None)
    if largest is None or largest[1].datagram <= 1500:
        return
    size = largest[1].datagram
    if size > 9000:
        advice = f"IP packets of {size} B ({largest[1].name}) exceed even jumbo frames of 9000 B and will be fragmented"
    else:
        advice = (
            f"IP packets of {size} B ({largest[1].name}) need jumbo frames: an MTU of that on every card and switch"
        )
    yield Problem("network.packet_size", f"{network.packet_size} B", advice)


def _loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback


def _ports(o: Observation) -> Iterator[Problem]:
    runs = digitizer_runs(o) if o.channelizes else []
    if o.fx is None:
        runs.append(run_of("spectra", o.network.spectra, o.substreams))
        runs.append(visibilities_run(o))
    for run in runs:
        first, last = run.first.port, run.numbers[-1] if run.by_port else run.first.port
        if first < 1024:
            yield Problem(run.key, str(run), "ports below 1024 are for root alone; start at 1024 or above")
        elif last in _EPHEMERAL or first in _EPHEMERAL:
            advice = f"outgoing connections use ports {_EPHEMERAL[0]} to {_EPHEMERAL[-1]} and may be in the way"
            yield Problem(run.key, str(run), advice)


def _buffers(o: Observation) -> Iterator[Problem]:
    if o.simulate is not None and o.simulate.speed == "max":
        return  # no rate to keep up with
    busiest = max((link for link in rates.links(o) if link.name.endswith(" in")), key=lambda link: link.payload)
    held = o.network.receive_buffer * 8 / busiest.payload
    if held < 5e-3:
        advice = f"holds {show(held, 's')} of {busiest.name}; 10 ms or more ride out a busy machine"
        yield Problem("network.receive_buffer", show(o.network.receive_buffer, "B"), advice)


def told_senders(o: Observation) -> dict[str, list[Sender]]:
    """List who may send to engines of each kind that there are; everybody where the list is empty."""
    kinds: dict[Engine, str] = {"f": "F-engines", "x": "X-engines", "catcher": "catcher", "fx": "FX"}
    return {kinds[engine]: o.receive(engine).senders for engine in o.engines}


def _gpus(o: Observation) -> Iterator[Problem]:
    numbers = [] if o.fx is None else o.fx.gpus
    if twice := [n for n in dict.fromkeys(numbers) if numbers.count(n) > 1]:
        advice = f"GPU {listed(map(str, twice))} gets several shares, which take turns: no faster than one, but a trial"
        yield Problem("fx.gpus", numbers, advice)


def _cores(o: Observation) -> Iterator[Problem]:
    """Warn of engines that are to run beside each other and do not: entries of one key, or of keys of two kinds."""
    taken: dict[int, tuple[str, tuple[int, ...]]] = {}
    for engine in o.engines:
        key = f"{o.engine_table(engine)}.cores"
        for entry in dict.fromkeys(o.engine_cores(engine, i) for i in range(o.engines[engine])):
            if entry and engine != "catcher" and len(entry) <= (threads := o.receive(engine).threads):
                advice = (
                    f"no core is left beside those of {threads} receiving: the engine's other threads are in their way"
                )
                yield Problem(key, ",".join(map(str, entry)), advice)
            others = {taken[core] for core in entry if core in taken}
            for where, _ in others:
                shared = listed(str(core) for core in entry if core in taken and taken[core][0] == where)
                advice = f"core {shared} is also in {where}: these engines take turns on it, unless on different hosts"
                yield Problem(key, ",".join(map(str, entry)), advice)
            taken |= {core: (key, entry) for core in entry}


def _senders(o: Observation) -> Iterator[Problem]:
    ends = {
        "F-engines": o.digitizer_endpoints(0) if o.channelizes else [],
        "FX": o.digitizer_endpoints(0),
        "X-engines": [o.spectra_endpoint(0)],
        "catcher": [o.catcher_endpoint(i) for i in range(o.catchers)],
    }
    for kind, senders in told_senders(o).items():
        here = [e.host for e in ends[kind] if _loopback(e.host)]
        if senders and here and not any(s.holds(here[0]) for s in senders):
            advice = (
                f"{kind} receive at {here[0]}, where only this host sends, from {here[0]}: all that comes is foreign"
            )
            yield Problem("receive.senders", listed(map(str, senders)), advice)


def _foreign_heaps(o: Observation) -> Iterator[Problem]:
    if o.xengine.sends == "meerkat":
        yield Problem("xengine.sends", "meerkat", FOREIGN_X_HEAPS)
        rms, top = math.sqrt((2**31 - 1) / (2 * o.integration_spectra)), 127 if o.fengine.output_bits == 8 else 7
        if rms < top / 2:
            advice = (
                f"{o.integration_spectra} spectra saturate int32 where parts of values have an rms of {rms:.3g} or "
                f"more, of {top} that there are: integrate less, or keep gains low"
            )
            yield Problem("xengine.integration", f"{o.integration_time:.6g} s", advice)


def _integration(o: Observation) -> Iterator[Problem]:
    asked = float(o.xengine.integration)
    if abs(o.integration_time / asked - 1) > 0.01:
        advice = f"becomes {o.integration_time:.6g} s: a multiple of {o.batch_spectra} spectra"
        yield Problem("xengine.integration", show(asked, "s"), advice)


def _summed(o: Observation) -> Iterator[Problem]:
    asked = o.catcher.integration
    if asked is not None and abs(o.file_time / float(asked) - 1) > 0.01:
        advice = f"becomes {o.file_time:.6g} s: {o.file_spectra // o.integration_spectra} integrations of an X-engine"
        yield Problem("catcher.integration", show(asked, "s"), advice)


def _ends(o: Observation) -> Iterator[Problem]:
    duration = o.observation.duration
    if duration is None:
        return
    integration = o.file_spectra * o.step / o.sample_rate
    whole, rest = divmod(duration, integration)
    if whole == 0:
        advice = f"is shorter than one integration of {float(integration):.6g} s: nothing will be whole"
        yield Problem("observation.duration", show(duration, "s"), advice)
    elif rest > integration / 100:
        longest = f"{float(whole * integration):.10g} s"
        advice = f"is {int(whole)} integrations and {show(rest, 's')} that fill no other; {longest} would leave none"
        yield Problem("observation.duration", show(duration, "s"), advice)
