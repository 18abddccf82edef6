"""Raw samples around a time that somebody asks for, to a file, while they are channelized.

The step reads the same ring as the channelizer, and keeps blocks for a while after use (``fengine.history``); the ring
has so many more, so that blocks which are kept are never the reason for a packet that finds no memory. It never waits
for a disk: what the disk is too slow for, once that memory is full, is lost to the recording, and counted.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ryle.config import Observation, show
from ryle.engines.triggered import Held, Recording, Wanted, file_of, too_long
from ryle.products.observed import input_labels
from ryle.receive.entrance import Entrance
from ryle.receive.samples import SampleMap
from ryle.store.chunk_file import PAGE, Layout
from ryle.store.recording import ChunkRecorder, Files, unused_stem
from ryle.stream.block import Block
from ryle.stream.controls import Control
from ryle.stream.metrics import Registry
from ryle.stream.step import Step

_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_FAREWELL = 30.0  # seconds that a disk may take, after the last block, for what waits
_LAST, _LONGEST = 1 << 62, 1e6  # samples, seconds
_KEYS = {"sample", "samples", "seconds", "name", "inputs", "stop"}


class Trigger(Step):
    """Keeps samples, and writes those that are asked for.

    The control ``trigger`` takes a JSON object: ``sample``, the first time stamp that is wanted (what comes next if
    absent); ``samples`` or ``seconds``, how many; ``name``, which stands in the file's name; ``inputs``, numbers in the
    array (all of the engine if absent). What has passed is taken as far back as it is still held. Or ``stop``, which is
    true and ends the recording that is under way. The answer gives ``sample`` and ``end``, of whole blocks, and
    ``file``.

    Parameters
    ----------
    observation : Observation
        What is observed.
    antennas : sequence of int
        Consecutive; those of the engine.
    entrance : Entrance
        Where blocks come from.
    samples : SampleMap
        What they are, and how many are kept.
    engine : str
        Name of the engine, which stands in files' names.
    directory : Path, optional
        Where files go, instead of the observation's own directory.
    """

    def __init__(
        self,
        observation: Observation,
        antennas: Sequence[int],
        entrance: Entrance,
        samples: SampleMap,
        engine: str,
        directory: Path | None = None,
    ) -> None:
        super().__init__("trigger")
        self._observation, self._entrance, self._engine = observation, entrance, engine
        self._inputs = range(antennas[0] * observation.pols, (antennas[-1] + 1) * observation.pols)
        self._directory = Path(observation.output.directory) if directory is None else directory
        self._history, self._most = samples.history, samples.held
        self._span, self._layout = samples.plan.span, Layout.of(samples.plan)
        self._source = entrance.reader(asks=False)
        self.sources = [self._source]
        self._asking = threading.Lock()  # one asks at a time; may wait for a disk
        self._lock = threading.Lock()  # of all below; nobody waits for anything under it
        self._held: deque[Held] = deque()
        self._epoch = 0
        self._next: int | None = None  # time stamp behind the newest block
        self._recording: Recording | None = None  # the last one
        self._before = (0, 0, 0)  # recordings before it, their bytes, and the blocks that they lost

    def register(self, m: Registry) -> None:
        """Add the control, and what is counted of it, to an engine's registry."""
        m.counter("triggers", "", "recordings of samples that were triggered", lambda: self._counted()[0])
        m.counter("triggered", "B", "of samples that triggers wrote", lambda: self._counted()[1])
        m.counter("trigger_lost", "blocks", "of samples that triggers did not write", lambda: self._counted()[2])
        m.gauge("held_from", "samples", "time stamp from which on a trigger can reach back", lambda: self._bounds()[0])
        m.gauge("held_to", "samples", "time stamp up to which samples have come", lambda: self._bounds()[1])
        means = "write raw samples: {sample, samples or seconds, name, inputs}, or {stop: true}"
        m.control("trigger", Control("json", means=means, get=self.last, set=self.set))

    def last(self) -> dict[str, Any] | None:
        """Say what the last recording does, or did; None if there was none."""
        with self._lock:
            return None if self._recording is None else self._recording.figures()

    # -- blocks ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Keep blocks until no more come; then wait for the disk."""
        try:
            for block in self._source:
                self._keep(block)
        finally:
            self._finish()

    def _keep(self, block: Block) -> None:
        with self._lock:
            recording = self._recording if self._recording is not None and self._recording.open else None
            if self._recording is not None and self._recording.failure:
                self._recording.end(self._next)
            if block.epoch != self._epoch:  # time stamps have jumped: those of before mean another time
                if recording is not None and self._next is not None:
                    recording.end(self._next)
                    recording = None
                self._epoch = block.epoch
            self._next = block.end
            wanted = recording is not None and recording.wanted.sample < block.end and block.start < recording.stop_at
            if len(self._held) < self._most:
                held = Held(block, self._entrance.assembled(block))
                self._held.append(held)
                if recording is not None and wanted:
                    recording.put(held)
            else:  # all of it waits for the disk
                if recording is not None and wanted:
                    recording.miss()
                block.release()
            self._let_go(self._history)
            if recording is not None and block.end >= recording.stop_at:
                recording.end()

    def _let_go(self, most: int) -> None:
        """Release the oldest blocks, if they are more than so many, up to one that is being written."""
        while len(self._held) > most and not self._held[0].writing:
            self._held.popleft().block.release()

    def _give_back(self, held: Held) -> None:
        """Take a block back that is written."""
        with self._lock:
            held.writing = False
            self._let_go(self._history)

    def _finish(self) -> None:
        with self._lock:
            recording = self._recording
            if recording is not None:
                recording.end(self._next or 0)
            self._let_go(0)
        if recording is not None:
            recording.join(_FAREWELL)
        with self._lock:
            self._let_go(0)

    def _bounds(self) -> tuple[int | None, int | None]:
        """Give the first time stamp that is held, and the one behind the last that came."""
        with self._lock:
            return self._oldest(), self._next

    def _oldest(self) -> int | None:
        return next((h.block.start for h in self._held if h.block.epoch == self._epoch), self._next)

    def _counted(self) -> tuple[int, int, int]:
        with self._lock:
            return self._with(self._recording)

    def _with(self, recording: Recording | None) -> tuple[int, int, int]:
        taken, written, lost = self._before
        return self._before if recording is None else (taken + 1, written + recording.written, lost + recording.lost)

    # -- what is asked -----------------------------------------------------------------------------------------------

    def set(self, value: Any) -> dict[str, Any]:
        """Begin to write what is asked for, or stop.

        Parameters
        ----------
        value : dict
            See `Trigger`.

        Raises
        ------
        ValueError
            If it is malformed, if a recording is under way, if nothing of it is held any more, or if it cannot be
            written where it is to go; nothing has changed then.
        """
        with self._asking:
            if isinstance(value, dict) and "stop" in value:
                return self._stopped(value)
            sample, count, name, rows = self._asked(value)
            with self._lock:
                before = self._recording, self._before
                wanted = self._wanted(sample, count, name)
                layout = self._layout if rows is None else self._layout.of_heads(rows)
                recording = self._taken(wanted, replace(layout, about=self._about(wanted, rows)), rows)
            try:
                recording.wanted = self._placed(wanted, layout)
            except (OSError, ValueError) as error:
                with self._lock:
                    self._recording, self._before = before
                    for held in self._held:
                        held.writing = False
                    self._let_go(self._history)
                raise ValueError(f"nothing is written: {error}") from None
            recording.start()
            return {"sample": wanted.sample, "end": wanted.end, "file": file_of(recording.wanted.stem)}

    def _asked(self, value: Any) -> tuple[int | None, int, str, list[int] | None]:
        """Check what was asked; give the first sample, how many, the label and the places of the heads."""
        if not isinstance(value, dict) or (wrong := sorted(set(value) - _KEYS)):
            raise ValueError(
                "give samples or seconds; sample, name and inputs if you like"
                + (f", and no {wrong[0]}" if isinstance(value, dict) else "")
            )
        if not self._most:
            raise ValueError(
                "samples come to the memory of a GPU, where none are kept: set receive.copies of the F-engines to 2 or "
                '"host-table"'
            )
        sample, name = value.get("sample"), value.get("name", "trigger")
        if sample is not None and (type(sample) is not int or not 0 <= sample < _LAST):
            raise ValueError(f"sample is {sample!r}: it is a time stamp, a count of samples since sync")
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise ValueError(f"name is {name!r}: it is 1 to 64 letters, digits and - _ .")
        return sample, self._count(value), name, self._rows(value.get("inputs"))

    def _count(self, value: dict[str, Any]) -> int:
        count, seconds = value.get("samples"), value.get("seconds")
        if (count is None) == (seconds is None):
            raise ValueError("give samples, a count, or seconds, and not both")
        if seconds is not None:
            if type(seconds) not in (int, float) or not 0 < seconds <= _LONGEST:
                raise ValueError(f"seconds is {seconds!r}: it is a number above 0, and {_LONGEST:g} at most")
            count = math.ceil(seconds * self._observation.sample_rate)
        if type(count) is not int or not 0 < count <= _LAST:
            raise ValueError(f"samples is {count!r}: it is a count, 1 or more")
        return count

    def _rows(self, inputs: Any) -> list[int] | None:
        """Give the places of inputs in the engine's ring; None if all of them are wanted."""
        if inputs is None:
            return None
        if not isinstance(inputs, list) or not inputs or any(type(i) is not int for i in inputs):
            raise ValueError(f"inputs is {inputs!r}: give a list of numbers of inputs")
        if wrong := [i for i in inputs if i not in self._inputs]:
            last = self._inputs[-1]
            raise ValueError(f"input {wrong[0]} is not this engine's, whose inputs are {self._inputs.start} to {last}")
        rows = sorted({i - self._inputs.start for i in inputs})
        return None if len(rows) == len(self._inputs) else rows

    def _wanted(self, sample: int | None, count: int, name: str) -> Wanted:
        """Say which blocks these samples are, if they can be had; under the lock."""
        last, oldest, span = self._recording, self._oldest(), self._span
        if last is not None and not last.over:
            raise ValueError(
                f"{file_of(last.wanted.stem)} is still being written, to sample {last.stop_at}: wait, or stop it "
                'with {"stop": true}'
            )
        if sample is None:
            if self._next is None:
                raise ValueError("no samples have come yet: give sample, the time stamp of the first that you want")
            sample = self._next
        end = -(-(sample + count) // span) * span
        if oldest is not None and end <= oldest:
            history = show(self._observation.fengine.history, "s")
            raise ValueError(
                f"late: samples {sample} to {sample + count} are held no more, those from {oldest} on are; "
                f"fengine.history, {history}, says for how long"
            )
        first = max(sample // span * span, oldest or 0)
        stem = f"{self._observation.observation.name}.{name}.{self._engine}.{first}"
        return Wanted(name, first, end, str(self._directory.absolute() / stem))

    def _about(self, wanted: Wanted, rows: list[int] | None) -> dict[str, Any]:
        """Say in the file what it is, and what of it was promised: what it has not, was lost."""
        o, labels = self._observation, input_labels(self._observation)
        inputs = self._inputs if rows is None else [self._inputs[row] for row in rows]
        return {
            "observation": o.observation.name,
            "name": wanted.name,
            "engine": self._engine,
            "sync_time": o.observation.sync_time,
            "sample_rate": str(o.sample_rate),
            "inputs": [labels[i] for i in inputs],
            "sample": wanted.sample,
            "end": wanted.end,
        }

    def _taken(self, wanted: Wanted, layout: Layout, rows: list[int] | None) -> Recording:
        """Have what is held of it written, and what comes; under the lock."""

        def make() -> ChunkRecorder:
            return ChunkRecorder(Files(recording.wanted.stem), layout, self._entrance.assembler, rows)

        self._before = self._with(self._recording)
        self._recording = recording = Recording(wanted, make, self._give_back)
        if self._next is None:
            return recording
        came = range(wanted.sample, min(wanted.end, self._next), self._span)
        held = [h for h in self._held if h.block.epoch == self._epoch and h.block.start in came]
        for each in held:
            recording.put(each)
        recording.miss(len(came) - len(held))  # another was too slow when they came
        if wanted.end <= self._next:
            recording.end()
        return recording

    def _placed(self, wanted: Wanted, layout: Layout) -> Wanted:
        """Find a name for the file that no other has, if there is room for it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if not os.access(self._directory, os.W_OK):
            raise ValueError(f"{self._directory} may not be written to")
        blocks = (wanted.end - wanted.sample) // self._span
        if (problem := too_long(PAGE + blocks * layout.record_bytes, self._directory)) is not None:
            raise ValueError(problem)
        return replace(wanted, stem=unused_stem(wanted.stem))

    def _stopped(self, value: dict[str, Any]) -> dict[str, Any]:
        if value != {"stop": True}:
            raise ValueError('give {"stop": true} alone')
        with self._lock:
            recording = self._recording
            if recording is None or not recording.open:
                raise ValueError("nothing is to be stopped: no samples are waited for")
            recording.end(self._next or 0)
            return {
                "sample": recording.wanted.sample,
                "end": recording.stop_at,
                "file": file_of(recording.wanted.stem),
            }
