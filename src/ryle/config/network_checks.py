"""What addresses and ways of receiving must agree on."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ryle.config.checking import reads
from ryle.config.endpoints import Endpoint, Run, run_of
from ryle.config.runs import digitizer_runs, spectra_runs, visibilities_run
from ryle.config.units import show
from ryle.problems import Problem, listed

if TYPE_CHECKING:
    from ryle.config.observation import Engine, Observation


@reads("array", "catcher", "fengine", "fx", "inputs", "network", "xengine")
def _addresses_apart(o: Observation) -> Iterator[Problem]:
    """Each run of endpoints stays in range and off those of other links."""
    substreams = max(1, o.substreams)  # 0 is a mistake that another check reports
    each = o.network.x_engines
    if each and o.fx is None and (len(each) != substreams or len({str(e) for e in each}) < len(each)):
        yield Problem("network.x_engines", len(each), f"addresses; {substreams} X-engines need one each, all different")
    taken: list[Run] = []
    inner = [spectra_runs(o), [visibilities_run(o)]]
    inner.append([] if o.statistics is None else [run_of("statistics", o.statistics, 1)])
    for runs in (digitizer_runs(o), *(inner if o.fx is None else ())):
        for run in runs:
            first, count, shown = run.first, run.count, str(run.first)
            if run.by_port and run.numbers[-1] > 65535:
                yield Problem(run.key, shown, f"{count} ports from {first.port} on run past 65535; start lower")
            elif first.multicast and not _is_multicast(run.numbers[-1], ipaddress.ip_address(first.host).version):
                yield Problem(run.key, shown, f"{count} groups run past the multicast addresses; start lower")
            for other in taken:
                if run.line == other.line and set(run.numbers) & set(other.numbers):
                    remedy = f"its {count} {run.what} run into the {other.count} of {other.key}; move one of them"
                    yield Problem(run.key, shown, remedy)
        taken += runs


@reads("catcher", "fengine", "fx", "xengine")
def _catchers(o: Observation) -> Iterator[Problem]:
    """Each catcher has a substream at least, of Ryle's X-engines."""
    many = len(o.catcher.directories)
    key, substreams = "catcher.directories", max(1, o.substreams)
    if many and o.fx is not None:
        yield Problem(key, many, "directories; [fx] writes one file without a catcher: remove it, or remove [fx]")
    elif many and o.catcher.packets is not None:
        remedy = "directories; others' X-engines send to one catcher: remove it, and set output.directory"
        yield Problem(key, many, remedy)
    elif many > substreams:
        remedy = (
            f"directories; a catcher gets whole substreams, of which there {'is' if substreams == 1 else 'are'} "
            f"{substreams}: give at most as many, or set a lower xengine.channels_per_substream"
        )
        yield Problem(key, many, remedy)


@reads("catcher", "output")
def _stream(o: Observation) -> Iterator[Problem]:
    """Integrations are served at an address of a host, and ports that there are."""
    stream = o.output.stream
    if stream is None:
        return
    if stream.multicast:
        remedy = "is a multicast group, and listeners connect by TCP: write an address of the catcher's host"
        yield Problem("output.stream", str(stream), remedy)
    elif stream.port + o.catchers - 1 > 65535:
        remedy = f"{o.catchers} ports from {stream.port} on run past 65535; start lower"
        yield Problem("output.stream", str(stream), remedy)


@reads("array", "fengine", "inputs")
def _own_addresses(o: Observation) -> Iterator[Problem]:
    """Antennas and inputs name addresses of digitizers that somebody receives."""
    tables = [(f"array.antennas[{i}].digitizers", a.digitizers) for i, a in enumerate(o.antennas)]
    for key, own in [*tables, *((f"inputs[{i}].digitizers", entry.digitizers) for i, entry in enumerate(o.inputs))]:
        if own and o.fengine.packets is not None:
            yield Problem(key, listed(map(str, own)), "others' F-engines send here, no digitizers: remove it")
    for key, own in tables:
        if len(own) not in (0, 1, o.pols):
            remedy = f"addresses: give one for all polarizations, or {o.pols}, one each; [[inputs]] take more"
            yield Problem(key, len(own), remedy)


@reads("array", "catcher", "fengine", "fx", "inputs", "network")
def _one_receiver(o: Observation) -> Iterator[Problem]:
    """Give an own address to one F-engine: two cannot receive at the same port."""
    owner: dict[Endpoint, int] = {}
    if not any([*(a.digitizers for a in o.antennas), *(entry.digitizers for entry in o.inputs)]):
        return  # a run, each antenna its own
    for engine in range(o.f_engines):
        try:
            ends = o.digitizer_endpoints(o.f_engine_antennas(engine))
        except (IndexError, ValueError):
            return  # another check's
        for endpoint in ends:
            other = owner.setdefault(endpoint, engine)
            if other != engine and not endpoint.multicast:
                a, b = (o.antennas[o.f_engine_antennas(e)[0]].name for e in (other, engine))
                remedy = (
                    f"both the F-engine of {a} and that of {b} would receive at {endpoint}; use a port each, multicast "
                    "groups, or more fengine.antennas_per_engine"
                )
                yield Problem("array.antennas", None, remedy)
                return


@reads("catcher", "fengine", "network", "xengine")
def _receiving(o: Observation) -> Iterator[Problem]:
    """Ways of receiving that need to know a device are told it."""
    own = {"fengine": o.fengine.receive, "xengine": o.xengine.receive, "catcher": o.catcher.receive}
    engines: dict[str, Engine] = {"fengine": "f", "xengine": "x", "catcher": "catcher"}
    said: set[str] = set()
    for table, engine in engines.items():
        found, mine = o.receive(engine), own[table]
        key = f"{table if mine is not None and mine.model_fields_set & {'by', 'device'} else 'network'}.receive"
        if found.by == "udp" or found.device or key in said:
            continue
        said.add(key)
        what = (
            'the network interface to receive from, such as device = "eth1"'
            if found.by == "packet_ring"
            else 'what DPDK is to open, such as device = "0000:41:00.0"'
        )
        yield Problem(f"{key}.device", None, f"by = {found.by!r} needs {what}".replace("'", '"'))


@reads("array", "catcher", "digitizer", "fengine", "fx", "inputs", "network", "xengine")
def _copies(o: Observation) -> Iterator[Problem]:
    """Payloads that no core is to copy come by DPDK, to a GPU that takes them as they are."""
    f, x, catcher = ("fengine", o.fengine.receive), ("xengine", o.xengine.receive), ("catcher", o.catcher.receive)
    tables = {"f": f, "x": x, "catcher": catcher, "fx": f}
    said: set[str] = set()
    for engine in o.engines:
        copies = o.receive(engine).copies
        table, own = tables[engine]
        here = own is not None and "copies" in own.model_fields_set
        key = f"{table if here else 'network'}.receive.copies"
        if copies == 2 or key in said:
            continue
        said.add(key)
        if o.receive(engine).by != "dpdk":
            yield Problem(
                key, copies, 'only receive.by = "dpdk" leaves payloads where they came to; remove it, or set by'
            )
        elif engine not in ("f", "fx"):
            remedy = f"F-engines alone read payloads so: write it in fengine.receive, or copies = 2 in {table}.receive"
            yield Problem(key, copies, remedy)
        elif o.fengine.backend != "cuda":
            yield Problem(key, copies, f'a GPU is to read payloads: set {o.backend_key("f")} = "cuda", or remove it')
        elif copies != "host-table" and engine == "fx" and o.fx_gpus > 1:
            remedy = 'packets come to the memory of one GPU: set "host-table" or 2, or fx.gpus to a single one'
            yield Problem(key, copies, remedy)
        elif o.levels is not None:
            remedy = f"samples of {o.digitizer.packets} are decoded by a core, which copies them; remove it"
            yield Problem(key, copies, remedy)
        elif o.digitizer_heap_bytes % 16:
            remedy = f"a GPU reads payloads by 16 bytes, these have {o.digitizer_heap_bytes}; remove it"
            yield Problem(key, copies, remedy)


@reads("catcher", "fengine", "fx", "network", "xengine")
def _history(o: Observation) -> Iterator[Problem]:
    """F-engines keep samples that come into memory of the host's."""
    if not o.fengine.history:
        return
    history = show(o.fengine.history, "s")
    if o.fengine.packets is not None or o.catcher.packets is not None:
        yield Problem("fengine.history", history, "is of samples, and others' F-engines have these; remove it")
    elif o.receive("f" if o.fx is None else "fx").copies == 0:
        remedy = 'is of samples in memory of the host\'s; remove it, or set receive.copies = "host-table" or 2'
        yield Problem("fengine.history", history, remedy)


def _is_multicast(address: int, version: int) -> bool:
    if version == 4:
        return address < 1 << 32 and ipaddress.IPv4Address(address).is_multicast
    return address < 1 << 128 and ipaddress.IPv6Address(address).is_multicast
