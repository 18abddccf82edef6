"""Where the engines of an observation run: hosts with room in every resource, and the file that says so.

Engines are placed one after the other, those with most to do first, on the first GPU of the first host that has room
for all they take; engines on a CPU take its cores. What a launcher needs to know stands in ``placement.toml``: which
engine on which host, GPU and cores, where it receives and where it sends to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ryle.config import Observation, Problem
from ryle.config.observation import Engine
from ryle.plan.checks import Traffic
from ryle.plan.hardware import Gpu, Hardware, Server
from ryle.plan.loads import Load, f_load, fx_load, x_load
from ryle.plan.work import Work
from ryle.problems import toml

#: Resources that a GPU has for itself; all others are the host's, in equal parts of its GPUs.
_OF_GPU = ("kernels", "power", "bus in", "bus out")


@dataclass
class Host:
    """A server, and what is used of it.

    Parameters
    ----------
    name : str
        Its name.
    gpus : list of dict
        Shares used of each GPU, by resource.
    shares : dict
        Shares used of the host, by resource.
    cores : int
        First core that is free.
    """

    name: str
    gpus: list[dict[str, float]]
    shares: dict[str, float] = field(default_factory=dict)
    cores: int = 0


@dataclass(frozen=True)
class Placed:
    """An engine and its place.

    Parameters
    ----------
    engine, index : Engine, int
        Which.
    host : str
        Where.
    gpu : int or None
        In the host's order; None: on its CPU.
    cores : tuple of int
        Its own.
    load : Load or None
        What it takes of the GPU, and of the part of the host that is the GPU's; None of what runs on a CPU.
    """

    engine: Engine
    index: int
    host: str
    gpu: int | None
    cores: tuple[int, ...]
    load: Load | None


@dataclass(frozen=True)
class Placement:
    """All engines' places.

    Parameters
    ----------
    engines : tuple of Placed
        In the order of the signal path.
    hosts : tuple of Host
        All that are used.
    problems : tuple of Problem
        What is more than a resource has: the observation's key, its value, what would fit.
    """

    engines: tuple[Placed, ...]
    hosts: tuple[Host, ...]
    problems: tuple[Problem, ...]


def place(
    o: Observation,
    hardware: Hardware,
    server: str = "h200",
    hosts: Sequence[str] = (),
    margin: float = 0.8,
) -> Placement:
    """Place the engines of an observation.

    Parameters
    ----------
    o : Observation
        Whose.
    hardware, server : Hardware, str
        What hosts are.
    hosts : sequence of str
        Their names, in the order in which they are filled; as many as are needed, node0 and so on, if there are none.
    margin : float
        Share of each resource that may be used.
    """
    machine = hardware.servers[server]
    gpu, work = hardware.gpus[machine.gpu], Work.of(o)
    given = list(hosts)
    filled: list[Host] = []
    placed: list[Placed] = []
    problems: list[Problem] = []
    traffic = Traffic(o)
    asked = [(engine, i, _load(o, work, engine, i, gpu, machine)) for engine, n in o.engines.items() for i in range(n)]
    for engine, index, load in sorted(asked, key=lambda a: -(a[2].most if a[2] else 0.0)):
        if load is not None and load.most > margin and not any(p.key == _key(engine) for p in problems):
            problems.append(_too_much(o, engine, load, margin))
        cores = _cores(o, engine, index)
        # What runs on a CPU takes of the cards too; a catcher of a large array most of all.
        cards = _cards(traffic.whole(engine, index), machine) if load is None else _of_host(load, machine)
        for host in _with_more(filled, given, machine, bool(hosts)):
            where = _fits(host, load, cards, cores, machine, margin)
            if where is not None:
                placed.append(_put(host, engine, index, load, cards, cores, where))
                break
        else:
            problems.append(Problem("hosts", f"{len(given)}", f"have no room for {engine}{index}: name more of them"))
            break
    order = list(o.engines)
    placed.sort(key=lambda p: (order.index(p.engine), p.index))
    return Placement(tuple(placed), tuple(h for h in filled if any(p.host == h.name for p in placed)), tuple(problems))


def _with_more(filled: list[Host], given: list[str], machine: Server, bounded: bool) -> Iterator[Host]:
    """Give the hosts in use, then one more at a time."""
    yield from list(filled)
    while not bounded or len(filled) < len(given):
        name = given[len(filled)] if bounded else f"node{len(filled)}"
        filled.append(Host(name, [{} for _ in range(machine.gpus)]))
        yield filled[-1]


def _load(o: Observation, work: Work, engine: Engine, index: int, gpu: Gpu, machine: Server) -> Load | None:
    on_gpu = {"f": o.fengine.backend, "fx": o.fengine.backend, "x": o.xengine.backend}.get(engine) == "cuda"
    if not on_gpu:
        return None
    if engine == "f":
        return f_load(work, len(o.f_engine_antennas(index)) * work.pols, gpu, machine)
    if engine == "x":
        return x_load(work, work.bandwidth / o.substreams, gpu, machine)
    return fx_load(work, 1 / o.fx_gpus, gpu, machine)


def _cores(o: Observation, engine: Engine, index: int) -> int:
    """How many cores an engine is to have: one for each thread that receives, and for those of its arithmetic."""
    threads = o.receive(engine, index).threads
    if engine == "catcher":
        return threads + 1
    table = o.xengine if engine == "x" else o.fengine
    return threads + (table.threads if table.backend == "cpu" else 1)


def _fits(
    host: Host, load: Load | None, shares: dict[str, float], cores: int, machine: Server, margin: float
) -> int | None:
    """Say which GPU of a host has room; -1: none is wanted; None: nothing fits."""
    if host.cores + cores > machine.cores:
        return None
    for name, share in shares.items():
        if host.shares.get(name, 0.0) + share > margin and host.cores:  # what is too much for any has one for itself
            return None
    if load is None:
        return -1
    for number, used in enumerate(host.gpus):
        # What is too much for any GPU gets one for itself.
        if not used or all(used.get(n, 0.0) + load.shares.get(n, 0.0) <= margin for n in _OF_GPU):
            return number
    return None


def _of_host(load: Load, machine: Server) -> dict[str, float]:
    return {name: share / machine.gpus for name, share in load.shares.items() if name not in _OF_GPU}


def _cards(flow: tuple[float, float], machine: Server) -> dict[str, float]:
    """Shares of a host's cards that an engine takes with what it receives and sends, bit/s."""
    return {
        name: bits / (machine.cards * machine.card) for name, bits in zip(("card in", "card out"), flow, strict=True)
    }


def _put(
    host: Host, engine: Engine, index: int, load: Load | None, shares: dict[str, float], cores: int, where: int
) -> Placed:
    if load is not None:
        used = host.gpus[where]
        used.update({n: used.get(n, 0.0) + load.shares[n] for n in _OF_GPU})
    for name, share in shares.items():
        host.shares[name] = host.shares.get(name, 0.0) + share
    first, host.cores = host.cores, host.cores + cores
    return Placed(engine, index, host.name, None if where < 0 else where, tuple(range(first, first + cores)), load)


def _key(engine: Engine) -> str:
    return {"f": "fengine.antennas_per_engine", "x": "xengine.channels_per_substream"}.get(engine, "fx.gpus")


def _too_much(o: Observation, engine: Engine, load: Load, margin: float) -> Problem:
    value = {"f": len(o.f_engine_antennas(0)), "x": o.substream_channels}.get(engine, o.fx_gpus)
    fits = int(value * margin / load.most) if engine != "fx" else -int(-value * load.most / margin // 1)
    most = f"at most {fits}" if engine != "fx" else f"at least {fits} GPUs"
    return Problem(
        _key(engine),
        value,
        f"an engine uses {load.most:.2g} of the {load.bottleneck} of a GPU's part: {most} would fit",
    )


def written(o: Observation, found: Placement, server: Server) -> str:
    """Write a placement as TOML."""
    lines = [
        f"# Where the engines of {o.observation.name} run: made by `ryle plan`; change it as you like.",
        "[plan]",
        f"observation = {toml(o.source)}",
        f"engines = {len(found.engines)}",
    ]
    for host in found.hosts:
        lines += ["", "[[hosts]]", f"name = {toml(host.name)}", f"kind = {toml(server.name)}"]
        lines += [f"cores = {server.cores}", f"gpus = {server.gpus}", f"link = {server.cards * server.card:g}"]
        shares = {k: round(v, 3) for k, v in host.shares.items()}
        lines += [f"used = {{ {', '.join(f'{toml(k)} = {v}' for k, v in shares.items())} }}"] if shares else []
    # All F-engines send to all substreams; of a large array these are most of the file.
    spectra = ", ".join(toml(str(o.spectra_endpoint(s))) for s in range(o.substreams)) if o.f_engines else ""
    for p in found.engines:
        lines += ["", "[[engines]]", f"kind = {toml(p.engine)}", f"index = {p.index}", f"host = {toml(p.host)}"]
        lines += [f"gpu = {p.gpu}"] if p.gpu is not None else []
        lines += [f"cores = {list(p.cores)}"]
        lines += [f"numa = {node}"] if (node := server.node_of(p.cores)) is not None else []
        come = ", ".join(toml(str(to)) for to in o.engine_endpoints(p.engine, p.index))
        go = spectra if p.engine == "f" else toml(str(o.visibilities_endpoint(p.index))) if p.engine == "x" else ""
        lines += [f"receives = [{come}]", f"sends = [{go}]"]
        if p.load is not None:
            lines += [f"bottleneck = {toml(p.load.bottleneck)}", f"used = {p.load.most:.3f}"]
            of_gpu = ", ".join(f"{toml(name)} = {p.load.shares[name]:.3f}" for name in _OF_GPU)
            lines.append(f"of_gpu = {{ {of_gpu} }}")
    return "\n".join(lines) + "\n"
