"""A placement checked as a whole: against itself, the observation, and what hosts have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ryle.config import Observation
from ryle.deploy.placement_file import PlacementFile
from ryle.plan.hardware import Hardware
from ryle.plan.traffic import traffic
from ryle.problems import Problem, listed


def problems(file: PlacementFile, o: Observation, hardware: Hardware) -> Iterator[Problem]:
    """Find all that is wrong with a placement of an observation's engines on some hardware."""
    yield from _hosts(file, hardware)
    yield from _engines(file, o)
    yield from _resources(file, hardware)
    yield from _addresses(file, o)
    yield from _links(file, o, hardware)


def _hosts(file: PlacementFile, hardware: Hardware) -> Iterator[Problem]:
    for name, n in Counter(h.name for h in file.hosts).items():
        if n > 1:
            yield Problem("hosts.name", name, "stands here twice: a host has one [[hosts]]")
    for kind in dict.fromkeys(h.kind for h in file.hosts if h.kind and h.kind not in hardware.servers):
        known = listed(hardware.servers)
        yield Problem("hosts.kind", kind, f"is no server here: {known}; or name your own by --hardware")
    names = {h.name for h in file.hosts}
    for name in dict.fromkeys(e.host for e in file.engines if e.host not in names):
        yield Problem("engines.host", name, f"is none of [[hosts]], which are {listed(sorted(names))}")


def _engines(file: PlacementFile, o: Observation) -> Iterator[Problem]:
    placed = Counter((e.kind, e.index) for e in file.engines)
    wanted = {(kind, i) for kind, n in o.engines.items() for i in range(n)}
    for (kind, index), n in placed.items():
        if (kind, index) not in wanted:
            yield Problem("engines", f"{kind}{index}", f"is no engine of {o.source}, which has {_counted(o)}")
        elif n > 1:
            yield Problem("engines", f"{kind}{index}", f"is placed {n} times: leave one of them")
    if missing := sorted(wanted - set(placed)):
        names = listed(f"{kind}{index}" for kind, index in missing[:5]) + (" …" if len(missing) > 5 else "")
        yield Problem("engines", len(file.engines), f"lack {names}: add an [[engines]] for each of {len(missing)}")


def _counted(o: Observation) -> str:
    return listed(f"{n} {kind}" for kind, n in o.engines.items())


def _resources(file: PlacementFile, hardware: Hardware) -> Iterator[Problem]:
    kinds = {h.name: hardware.servers.get(h.kind) for h in file.hosts}
    taken: dict[tuple[str, int], str] = {}
    for e in file.engines:
        name, server = f"{e.kind}{e.index}", kinds.get(e.host)
        for core in e.cores:
            if (other := taken.setdefault((e.host, core), name)) != name:
                yield Problem("engines.cores", core, f"of {e.host} is given to {other} and to {name}: give it to one")
        if server is not None and e.cores and max(e.cores) >= server.cores:
            yield Problem("engines.cores", max(e.cores), f"{e.host} ({server.name}) has cores 0 to {server.cores - 1}")
        if server is not None and e.gpu is not None and e.gpu >= server.gpus:
            yield Problem("engines.gpu", e.gpu, f"{e.host} ({server.name}) has GPUs 0 to {server.gpus - 1}")


def _addresses(file: PlacementFile, o: Observation) -> Iterator[Problem]:
    """Engines take addresses from the observation: others here mean that it has changed since."""
    again = "change the observation's [network], not this file; then make the plan again: ryle plan"
    counts = o.engines
    at: dict[str, set[str]] = {}  # hosts that receive at a unicast address of the observation
    for e in file.engines:
        if e.index >= counts.get(e.kind, 0):
            continue
        ends = o.engine_endpoints(e.kind, e.index)
        if e.receives and set(e.receives) != {str(end) for end in ends}:
            yield Problem("engines.receives", f"{e.kind}{e.index}", f"is not where it receives ({ends[0]} …): {again}")
        for end in ends:
            if not end.multicast:
                at.setdefault(end.host, set()).add(e.host)
    for address, hosts in at.items():
        if len(hosts) > 1:
            few = listed(sorted(hosts)[:4])
            yield Problem(
                "engines.host",
                address,
                f"is one host's address, but {len(hosts)} hosts receive there ({few}): give engines multicast groups",
            )


def _links(file: PlacementFile, o: Observation, hardware: Hardware) -> Iterator[Problem]:
    """Compare what cards carry with what they can."""
    flows = traffic(o)
    for host in file.hosts:
        server = hardware.servers.get(host.kind)
        mine = [(e.kind, e.index) for e in file.engines if e.host == host.name]
        if server is None or not all(who in flows for who in mine):
            continue
        for way, name in enumerate(("receives", "sends")):
            load, most = sum(flows[who][way] for who in mine), server.cards * server.card
            if load > most:
                yield Problem(
                    "hosts.name",
                    host.name,
                    f"{name} {load / 1e9:.4g} Gb/s, more than its cards' {most / 1e9:.4g} Gb/s: move engines away",
                )
