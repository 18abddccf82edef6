"""A plan checked as a whole: engines against the observation, hosts by resource, addresses and groups.

Each check looks at one subject and names every mistake with its key in ``placement.toml``, what stands there, and what
mends it. They hold for a plan that was written by hand as for one that ``ryle plan`` made: a launcher starts what
stands in the file, and what is wrong there would else show as missing packets.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from ryle.config import ConfigError, Observation, Problem, load, rates, show
from ryle.config.endpoints import read_endpoint
from ryle.config.observation import Engine
from ryle.plan.placement_file import EngineTable, HostTable, PlacementFile, read_placement
from ryle.problems import did_you_mean, listed

#: Of an engine's share, what may be beyond 1 by rounding.
_ROUNDED = 5e-3
_Keyed = tuple[str, EngineTable]


def load_placement(path: Path, *, observation: Path | None = None) -> tuple[PlacementFile, Observation]:
    """Read a placement and its observation, and check the plan as a whole.

    Parameters
    ----------
    path : Path
        What ``ryle plan --output`` has written, edited or not.
    observation : Path, optional
        Where its observation file is, if not where the plan says, seen from here or from beside the plan.

    Returns
    -------
    placement : PlacementFile
    observation : Observation

    Raises
    ------
    ConfigError
        If either cannot be read, or the plan has mistakes: all of them, each with key, value and what mends it.
    """
    found = read_placement(path)
    said = observation or Path(found.plan.observation)
    beside = path.parent / said
    o = load(beside if observation is None and not said.exists() and beside.exists() else said)
    if problems := check(found, o):
        raise ConfigError(str(path), problems)
    return found, o


def check(plan: PlacementFile, o: Observation) -> list[Problem]:
    """Look for everything that is wrong with a plan.

    Parameters
    ----------
    plan : PlacementFile
        Which.
    o : Observation
        Whose engines it places.

    Returns
    -------
    list of Problem
        None if it can be started.
    """
    engines = [(f"engines[{n}]", engine) for n, engine in enumerate(plan.engines)]
    hosts = {host.name: host for host in plan.hosts}
    found = [*_hosts(plan, hosts), *_complete(plan, o, engines)]
    known = [(key, e) for key, e in engines if e.host in hosts]
    found += _unknown_hosts(engines, hosts)
    found += [*_cores(known, hosts), *_own_choice(known, o), *_gpus(known, hosts, o)]
    addresses = list(_unread(engines))
    found += addresses
    if not addresses:  # the rest asks what addresses are
        found += [*_received(engines, o), *_sent(engines, o), *_unicast(engines), *_links(plan, o)]
    return found


def _hosts(plan: PlacementFile, hosts: Mapping[str, HostTable]) -> Iterator[Problem]:
    """Names that are there twice; hosts on which nothing runs are nobody's mistake."""
    seen: set[str] = set()
    for n, host in enumerate(plan.hosts):
        if host.name in seen:
            yield Problem(f"hosts[{n}].name", host.name, "is there twice: give each host one table")
        seen.add(host.name)
    if plan.plan.engines != len(plan.engines):
        yield Problem("plan.engines", plan.plan.engines, f"but {len(plan.engines)} tables [[engines]] follow")


def _complete(plan: PlacementFile, o: Observation, engines: Iterable[_Keyed]) -> Iterator[Problem]:
    """Every engine of the observation once, and no other."""
    first: dict[tuple[Engine, int], str] = {}
    for key, e in engines:
        count = o.engines.get(e.kind, 0)
        if e.index >= count:
            has = ", ".join(f"{kind}: {n}" for kind, n in o.engines.items())
            yield Problem(f"{key}.index", e.index, f"{e.name} is no engine of {o.source}, which has {has}; remove it")
        elif (e.kind, e.index) in first:
            where = first[e.kind, e.index]
            yield Problem(f"{key}.index", e.index, f"{e.name} is placed by {where} already: remove one of them")
        else:
            first[e.kind, e.index] = key
    missing = [f"{kind}{i}" for kind, n in o.engines.items() for i in range(n) if (kind, i) not in first]
    if missing:
        yield Problem(
            "engines", len(plan.engines), f"places nowhere: {listed(missing)}; add a table [[engines]] for each"
        )


def _unknown_hosts(engines: Iterable[_Keyed], hosts: Mapping[str, HostTable]) -> Iterator[Problem]:
    for key, e in engines:
        if e.host not in hosts:
            hint = did_you_mean(e.host, hosts)
            yield Problem(f"{key}.host", e.host, f"is no host here; {hint}the hosts are {listed(hosts)}")


def _cores(engines: Iterable[_Keyed], hosts: Mapping[str, HostTable]) -> Iterator[Problem]:
    """Cores that the host has, each for one engine."""
    taken: dict[tuple[str, int], str] = {}
    for key, e in engines:
        if not e.cores:
            yield Problem(f"{key}.cores", [], f"{e.name} needs a core at least")
        count = hosts[e.host].cores
        if beyond := [str(c) for c in e.cores if not 0 <= c < count]:
            yield Problem(
                f"{key}.cores", list(e.cores), f"{e.host} has the cores 0 to {count - 1}, not {listed(beyond)}"
            )
        others: dict[str, list[str]] = defaultdict(list)
        for core in e.cores:
            if (e.host, core) in taken:
                others[taken[e.host, core]].append(str(core))
            taken.setdefault((e.host, core), e.name)
        for other, cores in others.items():
            what = f"{e.name} shares {listed(cores)} of {e.host} with {other}: give each engine cores of its own"
            yield Problem(f"{key}.cores", list(e.cores), what)


def _own_choice(engines: Iterable[_Keyed], o: Observation) -> Iterator[Problem]:
    """Cores and GPUs that the observation names too: an engine would go there, and not where the plan has it."""
    for key, e in engines:
        own = o.engine_cores(e.kind, e.index)
        if beyond := sorted(set(own) - set(e.cores)):
            table = o.engine_table(e.kind)
            what = f"{table}.cores of {o.source} puts {e.name} on {listed(map(str, beyond))} too: remove that key, or"
            yield Problem(f"{key}.cores", list(e.cores), f"{what} name these cores here")
        if e.gpu is None or e.kind == "catcher":
            continue
        named = o.gpu_of("x" if e.kind == "x" else "f", e.index)
        if named and e.kind != "fx" and named[0] != e.gpu:
            table = o.engine_table(e.kind)
            what = f"{table}.gpus of {o.source} puts {e.name} on GPU {named[0]}: remove that key, or name that GPU here"
            yield Problem(f"{key}.gpu", e.gpu, what)


def _gpus(engines: Iterable[_Keyed], hosts: Mapping[str, HostTable], o: Observation) -> Iterator[Problem]:
    """GPUs that the host has, none with more work than it does."""
    shares: dict[tuple[str, int], list[_Keyed]] = defaultdict(list)
    for key, e in engines:
        for gpu in gpus_of(e, o):
            if gpu >= hosts[e.host].gpus:
                has = f"the GPUs 0 to {hosts[e.host].gpus - 1}" if hosts[e.host].gpus else "no GPU"
                yield Problem(f"{key}.gpu", e.gpu, f"{e.name} needs GPU {gpu}, and {e.host} has {has}")
                break
            shares[e.host, gpu].append((key, e))
    for (host, gpu), its in shares.items():
        if len(its) < 2:
            continue  # what is too much for any GPU has one for itself, and `ryle plan` said so
        for name in dict.fromkeys(name for _, e in its for name in e.of_gpu):
            if (total := sum(e.of_gpu.get(name, 0.0) for _, e in its)) > 1 + _ROUNDED:
                key, last = its[-1]
                names = listed(e.name for _, e in its)
                what = f"{names} together use {total:.2f} of the {name} of GPU {gpu} of {host}, at most 1:"
                yield Problem(f"{key}.gpu", gpu, f"{what} put {last.name} on another")


def gpus_of(e: EngineTable, o: Observation) -> tuple[int, ...]:
    """Give the GPUs of an engine, as its host counts them; F and X in one process have several."""
    if e.gpu is None:
        return ()
    return tuple(range(e.gpu, e.gpu + (o.fx_gpus if e.kind == "fx" else 1)))


def _unread(engines: Iterable[_Keyed]) -> Iterator[Problem]:
    """Addresses that are none."""
    good: set[str] = set()
    for key, e in engines:
        for name, addresses in (("receives", e.receives), ("sends", e.sends)):
            for n, address in enumerate(addresses):
                if address in good:
                    continue
                try:
                    read_endpoint(address)
                except ValueError as error:
                    yield Problem(f"{key}.{name}[{n}]", address, str(error))
                else:
                    good.add(address)


def _received(engines: Iterable[_Keyed], o: Observation) -> Iterator[Problem]:
    """Each address is received by one engine: that which the observation says."""
    by: dict[str, str] = {}
    for key, e in engines:
        twice: dict[str, list[str]] = defaultdict(list)
        for address in e.receives:
            if address in by:
                twice[by[address]].append(address)
            by.setdefault(address, e.name)
        for other, addresses in twice.items():
            what = f"{listed(addresses)} is received by {other} already: give each engine addresses of its own"
            yield Problem(f"{key}.receives", addresses[0], what)
        if e.index >= o.engines.get(e.kind, 0):
            continue
        wanted = list(map(str, o.engine_endpoints(e.kind, e.index)))
        if lacking := [a for a in wanted if a not in e.receives]:
            what = f"{e.name} of {o.source} receives {listed(lacking)}, which nobody would join: make the plan anew"
            yield Problem(f"{key}.receives", listed(e.receives), what)


def _sent(engines: list[_Keyed], o: Observation) -> Iterator[Problem]:
    """Find what is sent to nobody, and what nobody sends: neither an engine nor those who are outside."""
    received = {address for _, e in engines for address in e.receives}
    if (statistics := o.statistics) is not None:
        received.add(str(statistics))  # the first catcher's, by a socket besides
    outside = _outside(o)
    sent: set[str] = set()
    for key, e in engines:
        if unheard := [a for a in e.sends if a not in received and not (outside and e.kind == "x")]:
            what = f"{e.name} sends to {listed(unheard)}, where no engine receives: add the engine that does, or"
            yield Problem(f"{key}.sends", unheard[0], f"{what} make the plan anew")
        sent.update(e.sends)
    of_others = _sent_by_others(o)
    for key, e in engines:
        if outside and e.kind == "catcher":
            continue
        if silent := [a for a in e.receives if a not in sent and a not in of_others]:
            what = f"{e.name} receives at {listed(silent)}, where nobody sends: add the engine that does, or"
            yield Problem(f"{key}.receives", silent[0], f"{what} make the plan anew")


def _outside(o: Observation) -> bool:
    """Whether visibilities go to a program of others'."""
    return o.xengine.sends == "meerkat" and o.catcher.packets is None


def _sent_by_others(o: Observation) -> set[str]:
    """Where digitizers, or others' engines, send to."""
    if o.catcher.packets is not None:
        return {str(o.catcher_endpoint(i)) for i in range(o.catchers)}
    if not o.channelizes:
        return {str(o.spectra_endpoint(s)) for s in range(o.substreams)}
    return {str(e) for e in o.digitizer_endpoints(range(len(o.antennas)))}


def _unicast(engines: Iterable[_Keyed]) -> Iterator[Problem]:
    """Find unicast addresses received on several hosts, and loopback addresses of another host."""
    home: dict[str, tuple[str, str]] = {}
    receiver: dict[str, str] = {}
    for key, e in engines:
        for address in dict.fromkeys(_ip(a) for a in e.receives):
            if address.is_multicast or address.is_loopback:
                continue
            host, other = home.setdefault(str(address), (e.host, e.name))
            if host != e.host:
                what = f"is {host}'s, where {other} receives at it; put {e.name} there, or use multicast groups"
                yield Problem(f"{key}.receives", str(address), f"{what} in [network] of the observation")
        receiver.update(dict.fromkeys(e.receives, e.host))
    for key, e in engines:
        for to in e.sends:
            if _ip(to).is_loopback and receiver.get(to, e.host) != e.host:
                what = f"is an address within a host, but its receiver is on {receiver[to]}, not on {e.host}:"
                yield Problem(f"{key}.sends", to, f"{what} use an address of the network, or a multicast group")
                break


def _links(plan: PlacementFile, o: Observation) -> Iterator[Problem]:
    """Compare what engines of a host receive and send together with its cards."""
    traffic = Traffic(o)
    its: dict[str, list[tuple[EngineTable, tuple[float, float]]]] = defaultdict(list)
    for e in plan.engines:
        if e.index < o.engines.get(e.kind, 0):
            its[e.host].append((e, traffic.of(e)))
    for n, host in enumerate(plan.hosts):
        for way, name in enumerate(("receive", "send")):
            total = sum(flow[way] for _, flow in its[host.name])
            if total > host.link:
                largest, flow = max(its[host.name], key=lambda pair: pair[1][way])
                what = (
                    f"engines of {host.name} {name} {show(total, 'b/s')}, more than its cards take: place some of them"
                    f" elsewhere, {largest.name} with {show(flow[way], 'b/s')} first"
                )
                yield Problem(f"hosts[{n}].link", show(host.link, "b/s"), what)


class Traffic:
    """What engines receive and send, bit/s on the wire; nothing of what stays within a host.

    Parameters
    ----------
    o : Observation
        Whose.
    """

    def __init__(self, o: Observation) -> None:
        self._o = o
        self._wire = {link.name: link.wire for link in rates.links(o)}

    def of(self, e: EngineTable) -> tuple[float, float]:
        """Give both rates of an engine, received and sent."""
        come, go = self.whole(e.kind, e.index)
        return come * _crosses(e.receives), go * _crosses(e.sends)

    def whole(self, kind: Engine, index: int) -> tuple[float, float]:
        """Give both rates of an engine, wherever they go."""
        o, wire = self._o, self._wire
        if kind == "f":
            part = len(o.f_engine_antennas(index)) / len(o.f_engine_antennas(0))
            return part * wire.get("F-engine in", 0.0), part * wire.get("F-engine out", 0.0)
        if kind == "x":
            return wire.get("X-engine in", 0.0), wire.get("X-engine out", 0.0)
        if kind == "fx":
            return wire.get("FX in", 0.0), 0.0
        most = len(o.catcher_substreams(o.catchers - 1))
        return len(o.catcher_substreams(index)) / most * wire.get("catcher in", 0.0), 0.0


def _crosses(addresses: tuple[str, ...]) -> bool:
    """Whether packets to some addresses cross a card."""
    return bool(addresses) and not _ip(addresses[0]).is_loopback


@cache
def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(read_endpoint(address).host)
