"""Scans: to which file a live engine writes from when on, what is tracked and how long it integrates, as others say.

A scan begins with an integration of the X-engines, so that none has two phase centres or lies in two files. What lies
before goes to the scan before, to the last integration; what others set without a time begins as soon as it can.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ryle.chunk import Integration
from ryle.config import ConfigError, Observation, changed
from ryle.products.observed import output_file, taken
from ryle.stream.controls import Control, Late, sample_of
from ryle.stream.metrics import Registry

if TYPE_CHECKING:  # it brings pyuvdata
    from ryle.products.uvh5 import UVH5Writer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
_KEYS = "integration", "name", "phase_centre", "sample", "write"
_CENTRE = "ra", "dec", "name"


@dataclass(frozen=True)
class Scan:
    """A stretch of an observation.

    Parameters
    ----------
    begin : int
        First spectrum, since sync.
    observation : Observation
        As it is meanwhile: its phase centre, and the integration of the file.
    file : Path or None
        Of the whole band; None: nothing is written.
    writer : UVH5Writer or None
        Of that file, or of this engine's band of it.
    """

    begin: int
    observation: Observation
    file: Path | None
    writer: UVH5Writer | None

    def as_dict(self) -> dict[str, Any]:
        """Say what it is, ready for JSON."""
        o = self.observation
        return {
            "sample": self.begin * o.step,
            "file": "" if self.file is None else str(self.file.absolute()),
            "integration": o.file_time,
            "phase_centre": phase_centre(o),
        }


class Scans:
    """The scan that is on, and those that are queued. From any thread.

    Parameters
    ----------
    first : Scan
        That an engine begins with; it has a file.
    open_file : callable
        Opens what this engine writes of a file, given the observation and the file of the whole band.
    begins : callable
        Told of each scan but the first when it begins, by the thread that writes.
    """

    def __init__(
        self,
        first: Scan,
        open_file: Callable[[Observation, Path], UVH5Writer],
        begins: Callable[[Scan], None] = lambda scan: None,
    ) -> None:
        assert first.file is not None
        self._directory = first.file.parent
        self._open_file, self.begins = open_file, begins
        self._setting, self._lock = threading.Lock(), threading.Lock()
        self._now = first
        self._queue: deque[Scan] = deque()
        self._next = 0  # spectrum from which on nothing has been summed
        self._phase = 0  # of others' X-engines: where their integrations begin
        self._set = self._late = 0

    def register(self, m: Registry) -> None:
        """Add the control "scan", and what is counted of it, to an engine's registry."""
        step = self._now.observation.step
        m.gauge("next_scan", "samples", "time stamp from which on a scan can still begin",
                lambda: self._next * step)  # fmt: skip
        m.counter("scans", "", "scans that have been set", lambda: self._set)
        m.counter("late_scans", "", "scans refused as the time for them had passed", lambda: self._late)
        means = "a new scan: {write, name, integration, phase_centre: {ra, dec, name}, sample}"
        m.control("scan", Control("json", means=means, get=self.said, set=self.set))

    def said(self) -> dict[str, Any]:
        """Give the scan that is on, and what is queued behind it."""
        with self._lock:
            return self._now.as_dict() | {"queued": [scan.as_dict() for scan in self._queue]}

    def due(self, integration: Integration) -> list[Scan]:
        """Give the scans that begin with an integration of the X-engines, or before; called with each, in order."""
        first = integration.first_spectrum
        with self._lock:
            self._next, self._phase = max(self._next, first + integration.spectra), first % integration.spectra
            found = []
            while self._queue and self._queue[0].begin <= first:
                found.append(self._queue.popleft())
            if found:
                self._now = found[-1]
        for scan in found[:-1]:
            _discard(scan)
        return found[-1:]

    def close(self) -> None:
        """Forget what is queued; its files, which have nothing in them, are removed."""
        with self._lock:
            queue, self._queue = list(self._queue), deque()
        for scan in queue:
            _discard(scan)

    def set(self, value: Any) -> dict[str, Any]:
        """Queue a scan; those that were queued for its beginning or later are dropped.

        Parameters
        ----------
        value : dict
            ``write``: whether it goes to a file; as before if absent. ``name``: of the file, without ``.uvh5``; the
            next that is free if absent. ``integration``: of the file, seconds. ``phase_centre``: ``ra`` and ``dec`` in
            degrees (ICRS) and ``name``. ``sample``: time stamp from which on; as soon as can be if absent.

        Returns
        -------
        dict
            What `Scan.as_dict` says of it: ``sample`` is that of the first spectrum that it has.

        Raises
        ------
        ValueError
            If it is not allowed, or late, or the file cannot be made; nothing has changed then.
        """
        if not isinstance(value, dict) or (wrong := sorted(set(value) - set(_KEYS))):
            said = f", and no {wrong[0]}" if isinstance(value, dict) else ""
            raise ValueError(f"give {', '.join(_KEYS)}{said}")
        sample, write = sample_of(value), value.get("write")
        if write is not None and type(write) is not bool:
            raise ValueError(f"write is {write!r}: it is true or false")
        with self._setting:
            with self._lock:
                before = self._at(sample)
            o = _with(before.observation, value)
            file = writer = None
            if before.file is not None if write is None else write:
                self._take_back(value.get("name"))
                file = self._file(o, value.get("name"))
                try:
                    writer = self._open_file(o, file)
                except OSError as error:
                    raise ValueError(f"no file can be made there: {error}") from None
            elif value.get("name") is not None:
                raise ValueError("name is that of a file, and nothing is to be written: leave it out")
            try:
                scan, dropped = self._queued(o, file, writer, sample)
            except Late:
                self._late += 1
                if writer is not None:
                    finish(writer)
                raise
        for each in dropped:
            _discard(each)
        self._set += 1
        return scan.as_dict()

    def _at(self, sample: int | None) -> Scan:
        """Give the scan that another one follows which begins at a time stamp."""
        if sample is None:
            return self._now
        earlier = [scan for scan in self._queue if scan.begin * scan.observation.step < sample]
        return earlier[-1] if earlier else self._now

    def _queued(
        self, o: Observation, file: Path | None, writer: UVH5Writer | None, sample: int | None
    ) -> tuple[Scan, list[Scan]]:
        unit = o.integration_spectra
        with self._lock:
            begin = self._next if sample is None else -(-sample // o.step)
            begin = -((self._phase - begin) // unit) * unit + self._phase
            if begin < self._next:
                raise Late(
                    f"late: sample {sample} has passed; changes can be made from sample {self._next * o.step} on"
                )
            scan = Scan(begin, o, file, writer)
            dropped = [each for each in self._queue if each.begin >= begin]
            self._queue = deque([*(each for each in self._queue if each.begin < begin), scan])
        return scan, dropped

    def _take_back(self, name: Any) -> None:
        """Drop what is queued for a file that is now to begin at another time."""
        with self._lock:
            found = [scan for scan in self._queue if scan.file is not None and scan.file.stem == name]
            self._queue = deque(scan for scan in self._queue if scan not in found)
        for scan in found:
            _discard(scan)

    def _file(self, o: Observation, name: Any) -> Path:
        if name is None:
            return output_file(o, self._directory)
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith(".uvh5"):
            raise ValueError(
                f"name is {name!r}: give up to 100 letters, digits and _ . + -, the first a letter or a digit, without "
                ".uvh5 and without a directory"
            )
        file = self._directory / f"{name}.uvh5"
        # Of catchers of bands the others may have opened theirs; one's own is not there, or cannot be made.
        if file.exists() if o.catcher.directories else taken(o, self._directory, name):
            raise ValueError(f"{file} is there already, or what belongs to it: give another name")
        return file


def phase_centre(o: Observation) -> dict[str, Any] | None:
    """Say what is tracked, degrees, ready for JSON."""
    centre = o.phase_centre
    return None if centre is None else {name: getattr(centre, name) for name in _CENTRE}


def _with(o: Observation, value: dict[str, Any]) -> Observation:
    """Give an observation with another phase centre and integration of the file, if they are to be others."""
    changes: dict[str, Any] = {}
    if (centre := value.get("phase_centre")) is not None:
        if not isinstance(centre, dict) or not {"ra", "dec"} <= set(centre) <= set(_CENTRE):
            raise ValueError("phase_centre takes ra and dec in degrees, and a name")
        changes["phase_centre"] = {"name": "phase centre"} | centre
    if (seconds := value.get("integration")) is not None:
        changes["catcher"] = {"integration": seconds}
    try:
        return changed(o, **changes) if changes else o
    except ConfigError as error:
        raise ValueError("; ".join(f"{p.key} cannot be {p.value}: {p.remedy}" for p in error.problems)) from None


def _discard(scan: Scan) -> None:
    if scan.writer is not None:
        finish(scan.writer)


def finish(writer: UVH5Writer) -> None:
    """Close a file, and remove it if nothing has been written to it."""
    writer.close()
    if not writer.integrations:
        writer.path.unlink(missing_ok=True)
