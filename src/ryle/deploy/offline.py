"""Recordings correlated by a Ray cluster: pieces of them anywhere, and the file that one machine would have written."""

from __future__ import annotations

import io
import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ryle.array.earth import earth_orientation
from ryle.array.observed import sync_time
from ryle.config import Observation, at_leisure, changed, part
from ryle.deploy.cluster import joined, nodes
from ryle.deploy.pieces import Pieces, cut, this_ryle
from ryle.engines.extent import Kind, extent, kind_of
from ryle.engines.offline import correlate
from ryle.engines.run import RunResult
from ryle.engines.watching import progress_bar, tell_end
from ryle.monitor.progress import PlainLines, working
from ryle.products.observed import kept_note, output_file
from ryle.store.fetch import Recording

#: Pieces for each that can be under way, so that who is done early finds more; of captures, each of which is read from
#: the beginning, one.
_EACH, _EACH_OF_CAPTURE = 4, 1
#: Samples that are a piece's worth, over all inputs: seconds of work. And batches, of which neighbours make one twice.
_SAMPLES, _BATCHES = 1 << 27, 16
#: Times that a piece is begun again whose worker was killed.
_RETRIES = 5
#: Pieces that wait at the cluster for who is done next.
_AHEAD = 2
_TURN, _LOOK = 0.5, 5.0  # seconds between two looks at pieces, and at hosts


@dataclass(frozen=True)
class Needs:
    """What a piece takes of a host while it is correlated.

    Parameters
    ----------
    cores, gpus : int
        Of Ray's.
    """

    cores: int
    gpus: int

    @classmethod
    def of(cls, observation: Observation) -> Needs:
        """Say what an observation's arithmetic takes: its threads, and one that reads and writes."""
        o = observation
        f, x = (half.threads if half.backend == "cpu" else 0 for half in (o.fengine, o.xengine))
        cuda = "cuda" in (o.fengine.backend, o.xengine.backend)
        return cls(1 + f + x, o.fx_gpus if cuda else 0)

    def slots(self, ray: Any) -> int:
        """Count the pieces that can be under way in a cluster at the same time."""
        free = [(node.cores // self.cores, node.gpus // self.gpus if self.gpus else 1 << 30) for node in nodes(ray)]
        return sum(map(min, free))

    def fit(self, ray: Any) -> Needs:
        """Take no more cores than the largest host has.

        Raises
        ------
        RuntimeError
            If no host has the GPUs.
        """
        found = nodes(ray)
        if self.gpus > max((node.gpus for node in found), default=0):
            raise RuntimeError(
                f"no host of the Ray cluster has {self.gpus} GPUs, as the observation's backend cuda needs: start Ray "
                'on one, or set fengine.backend and xengine.backend to "cpu"'
            )
        return Needs(max(1, min(self.cores, max((node.cores for node in found), default=1))), self.gpus)


def correlate_anywhere(
    observation: Observation,
    recordings: Sequence[str],
    output: Path | None,
    console: Console | None = None,
    *,
    address: str | None = None,
    pieces: int | None = None,
    overwrite: bool = False,
) -> list[RunResult]:
    """Correlate recordings on the hosts of a Ray cluster.

    The files are those that `ryle.engines.offline.correlate` writes, bit for bit. Finished pieces stay if it is stopped
    or fails, and are taken up when it is called again with the same.

    Parameters
    ----------
    observation : Observation
        What was observed.
    recordings : sequence of str
        Paths that are the same on all hosts, or URLs; in the order that `correlate` takes them in.
    output : Path, optional
        Directory for what is written, instead of the observation's; of the same path on all hosts.
    console : Console, optional
        Where a bar is shown.
    address : str, optional
        Of the cluster; see `ryle.deploy.cluster.connect`.
    pieces : int, optional
        How many; some for each that can be under way if absent.
    overwrite : bool
        Replace what an earlier run left; else this one's files get a new name.

    Returns
    -------
    list of RunResult
        One a band.

    Raises
    ------
    RuntimeError
        If there is no cluster, or hosts were lost again and again.
    Exception
        What correlating on one machine would have raised.
    """
    console, o = console or Console(stderr=True), at_leisure(observation, 1)  # a thread for each that `Needs` counts
    found = [Recording.of(each) for each in recordings]
    path = output_file(o, output, overwrite=overwrite).absolute()
    directory = path.with_name(f"{path.stem}.pieces")
    with joined(address) as ray:
        if note := kept_note(o, path):
            console.print(f"[yellow]{note}[/]", highlight=False, soft_wrap=True)
        needs = Needs.of(o).fit(ray)
        _bring_up(ray, o, needs)
        with working("looking at the recordings", console):
            files = [each.local() for each in found]
            integrations, samples = extent(o, files, console)
            kind = kind_of(o, files[0])
        each = _EACH_OF_CAPTURE if kind == "packets" else _EACH
        count = pieces or _count(o, integrations, samples, each * max(1, needs.slots(ray)))
        shared, gone = Pieces.of(o, found, cut(integrations, count)).begin(directory)
        if gone:
            text = f"{directory} had {gone} pieces of other recordings, observation or version: begun anew"
            console.print(f"[yellow]{text}[/]", highlight=False, soft_wrap=True)
        try:
            _correlate(ray, o, shared, directory, needs, console)
        except BaseException:
            if kept := len(shared.finished(directory)):
                text = f"{kept} of {len(shared.cuts)} pieces are kept in {directory}: the same command does the rest"
                console.print(f"[yellow]{text}[/]", highlight=False, soft_wrap=True)
            raise
    with working("joining the pieces", console):
        made = shared.join(directory, _files(o, path, kind), overwrite=overwrite)
    for file, written in made.items():
        tell_end(console, written, file, True, 1.0)
    return [RunResult(file, written) for file, written in made.items()]


def _bring_up(ray: Any, o: Observation, needs: Needs) -> None:
    """Let workers come up, one for each piece that can be under way, while nobody knows yet what there is to do."""
    task = ray.remote(num_cpus=needs.cores, num_gpus=needs.gpus, max_retries=0)(come_up)
    own = ray.put(o)
    for _ in range(needs.slots(ray)):
        task.remote(own)


def come_up(observation: Observation) -> None:
    """Load, in a worker of Ray's, what a piece needs: this module has, but for the orientation of Earth."""
    with suppress(Exception):  # nobody waits for this; what goes wrong goes wrong with a piece again, and is told then
        earth_orientation(sync_time(observation).time([0]))


def _files(o: Observation, path: Path, kind: Kind) -> dict[str, Path]:
    """Say what one machine would have written, by the names that the files of a piece have."""
    bands = (
        [band.name or str(i) for i, band in enumerate(o.vdif.bands)] if o.vdif is not None and kind == "vdif" else []
    )
    ends = [f".{band}" for band in bands] if len(bands) > 1 else [""]
    return {f"{o.observation.name}{end}.uvh5": path.with_name(f"{path.stem}{end}.uvh5") for end in ends}


def _count(o: Observation, integrations: range, samples: int, wanted: int) -> int:
    """Say how many pieces there are to be: as many as wanted, unless they would be too short to be worth it."""
    batches = len(integrations) * o.file_spectra // (o.batch_spectra * o.f_batches)
    return max(1, min(wanted, samples // _SAMPLES, batches // _BATCHES))


def _correlate(ray: Any, o: Observation, pieces: Pieces, directory: Path, needs: Needs, console: Console) -> None:
    """Correlate what is not finished, with a bar."""
    done = pieces.finished(directory)
    ready = sum(map(pieces.length, done))
    total = sum(map(pieces.length, range(len(pieces.cuts))))
    if done:
        console.print(f"{len(done)} of {len(pieces.cuts)} pieces are there already", highlight=False)
    task = ray.remote(num_cpus=needs.cores, num_gpus=needs.gpus, max_retries=_RETRIES)(correlate_piece)
    own, made_here = ray.put(o), 0
    left = deque(n for n in range(len(pieces.cuts)) if n not in done)
    asked: dict[Any, int] = {}
    lines, begun, looked, slots = PlainLines(console), time.monotonic(), -_LOOK, 0
    with progress_bar(console) as progress:
        bar = progress.add_task("", total=total, completed=ready, text="")
        while left or asked:
            if (now := time.monotonic()) - looked >= _LOOK:
                looked, slots = now, needs.slots(ray)
            # Not all at once, so that nobody needs to be told if this ends early: Ray 2.60 ends who cancels what has
            # just been done.
            while left and len(asked) < max(1, slots) + _AHEAD:
                number = left.popleft()
                asked[task.remote(own, str(directory), number)] = number
            finished, _ = ray.wait(list(asked), timeout=_TURN)
            for each in finished:
                number = asked.pop(each)
                _result(ray, each, number)
                made_here += pieces.length(number)
            share, rate = (ready + made_here) / max(1, total), made_here / max(now - begun, 1e-3)
            text = f"{ready + made_here} integrations · {min(slots, len(asked))} pieces under way, "
            text += f"{len(left) + max(0, len(asked) - slots)} to come · {rate:.3g} integrations/s"
            progress.update(bar, completed=ready + made_here, text=text)
            lines.say(lambda said=f"correlating: {share:.0%} · {text}": said)  # type: ignore[misc]


def _result(ray: Any, reference: Any, number: int) -> None:
    """Raise what made a piece fail as one machine would have raised it."""
    try:
        ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RuntimeError(
            f"whoever correlated piece {number} was lost {_RETRIES + 1} times ({reason}); look for memory and faults "
            "on the hosts, and give the same command again"
        ) from None


def correlate_piece(observation: Observation, directory: str, number: int) -> None:
    """Correlate a piece here, in a worker of Ray's.

    Parameters
    ----------
    observation : Observation
        What was observed.
    directory : str
        Where pieces are.
    number : int
        Which.

    Raises
    ------
    RuntimeError
        If this host has another version of Ryle.
    FileNotFoundError
        If it lacks a recording or the directory.
    Exception
        What correlating raises.
    """
    place = Path(directory)
    pieces = Pieces.read(place)
    if this_ryle() != pieces.ryle:
        raise RuntimeError(
            f"{socket.gethostname()} has Ryle {this_ryle()}, and the work was shared out by {pieces.ryle}: install the "
            "same on all hosts"
        )
    own = part(_on_own_gpus(observation), pieces.integrations(number))
    files = [recording.local() for recording in pieces.recordings]
    quiet = Console(file=io.StringIO())
    # In a thread, where no signal ends it in good order with a part of the piece: it is whole or is not there.
    with ThreadPoolExecutor(1, "piece") as thread:
        thread.submit(pieces.make, place, number, lambda to: correlate(own, files, to, quiet, overwrite=True)).result()


def _on_own_gpus(observation: Observation) -> Observation:
    """Count GPUs as Ray shows them to a worker: those that it has been given, from 0 on."""
    o = observation
    if "cuda" not in (o.fengine.backend, o.xengine.backend) or "CUDA_VISIBLE_DEVICES" not in os.environ:
        return o
    changes: dict[str, dict[str, Any]] = {"fengine": {"gpus": []}, "xengine": {"gpus": []}}
    if o.fx is not None and o.fx.gpus:
        changes["fx"] = {"gpus": list(range(len(o.fx.gpus)))}
    return changed(o, **changes)
