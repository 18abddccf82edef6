"""A session in a file: what was seen of a run, look by look, to be seen again at any speed.

A file is a line of text and frames that are added one behind the other, each whole in itself: magic, kind, bytes and
checksum, then compressed bytes. One that was cut, or whose last frame was not written whole, is read up to there. A
glance, and histograms of ADC values, have frames of their own, before the look that has them; looks that have the same
share it.
"""

from __future__ import annotations

import json
import math
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO, Self

from ryle.config import Observation
from ryle.products.glance import Glance
from ryle.products.histograms import Histograms
from ryle.watch.history import History
from ryle.watch.left import consistent
from ryle.watch.looking import read_observation
from ryle.watch.sight import Alarm, EngineSight, InputSight, Sight

_FIRST = b"a session of ryle monitor, version 1\n"
_HEAD = struct.Struct("<4scxxxQI")  # magic, kind, bytes, CRC-32 of kind and bytes
_MAGIC = b"RYSE"
_LOOK, _GLANCE, _HISTOGRAMS = b"s", b"g", b"h"
_LONGEST = 512 << 20  # bytes of a frame
_LONG = 60.0  # seconds of a gap, such as a clock that was set leaves, that nobody waits for


class SessionError(ValueError):
    """What should be a recorded session is none; says what to do."""


class Recorder:
    """Writes a session, while its block lasts.

    Parameters
    ----------
    path : Path
        The file; what is there is replaced.
    glances : float
        Seconds between glances that are kept, and histograms, at least: they are most of what a session takes.

    Raises
    ------
    OSError
        If it cannot be written.
    """

    def __init__(self, path: Path, glances: float = 1.0) -> None:
        self.path, self._apart = path, glances
        self._file: BinaryIO = open(path, "wb", buffering=0)
        self._file.write(_FIRST)
        self._glance: Glance | None = None
        self._glance_at = self._histograms_at = -math.inf
        self._histograms: Histograms | None = None

    def add(self, sight: Sight) -> None:
        """Add a look.

        Raises
        ------
        OSError
            If it cannot be written, when the disk is full for example.
        """
        glance = sight.glance
        if glance is None:
            has = False
        elif glance is self._glance:
            has = True
        else:
            has = abs(sight.time - self._glance_at) >= self._apart or self._glance is None
            if has:
                self._glance, self._glance_at = glance, sight.time
                self._write(_GLANCE, glance.to_bytes())
        if (some := sight.histograms) is not None and some is not self._histograms:
            if abs(sight.time - self._histograms_at) >= self._apart:
                self._histograms, self._histograms_at = some, sight.time
                self._write(_HISTOGRAMS, some.to_bytes())
        look = asdict(replace(sight, glance=None, histograms=None)) | {"glance": has, "histograms": some is not None}
        self._write(_LOOK, json.dumps(look, default=_plain).encode())

    def _write(self, kind: bytes, data: bytes) -> None:
        packed = zlib.compress(data, 1)
        # In one write, so that a frame is there or is not; a short one is found by its checksum.
        self._file.write(_HEAD.pack(_MAGIC, kind, len(packed), _checksum(kind, packed)) + packed)

    def close(self) -> None:
        """End it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record(path: Path, glances: float = 1.0) -> Recorder:
    """Begin to record a session; see `Recorder`."""
    return Recorder(path, glances)


def looks(path: Path) -> Iterator[Sight]:
    """Read a session, look by look, in little memory; ends where the file was cut.

    Raises
    ------
    SessionError
        If it is no session.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as file:
        if file.read(len(_FIRST)) != _FIRST:
            raise SessionError(f"{path} is no recorded session: give a file that `ryle monitor --record` wrote")
        glance: Glance | None = None
        histograms: Histograms | None = None
        texts: dict[str, str] = {}
        while (frame := _frame(file)) is not None:
            kind, data = frame
            try:
                if kind == _GLANCE:
                    read = Glance.from_bytes(data)
                    glance = read if consistent(read) else None
                elif kind == _HISTOGRAMS:
                    histograms = Histograms.from_bytes(data)
                elif kind == _LOOK:
                    yield _sight(json.loads(data), glance, histograms, texts)
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # of another version


def _checksum(kind: bytes, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(kind))


def _frame(file: BinaryIO) -> tuple[bytes, bytes] | None:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, kind, size, checksum = _HEAD.unpack(head)
    if magic != _MAGIC or size > _LONGEST:
        return None
    packed = file.read(size)
    if len(packed) < size or _checksum(kind, packed) != checksum:
        return None
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, _LONGEST)
    except zlib.error:
        return None
    return None if unpacking.unconsumed_tail else (kind, data)


def _sight(said: dict[str, Any], glance: Glance | None, histograms: Histograms | None, texts: dict[str, str]) -> Sight:
    engines = tuple(
        EngineSight(**{**e, "kinds": {name: tuple(kind) for name, kind in e["kinds"].items()}}) for e in said["engines"]
    )
    return Sight(
        **{
            **said,
            "text": texts.setdefault(said["text"], said["text"]),  # one for all looks
            "engines": engines,
            "inputs": tuple(InputSight(**i) for i in said["inputs"]),
            "alarms": tuple(Alarm(**a) for a in said["alarms"]),
            "log": tuple(said["log"]),
            "glance": glance if said["glance"] else None,
            "histograms": histograms if said.get("histograms") else None,  # older sessions have none
        }
    )


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


class Replay:
    """Shows a recorded session as a `ryle.watch.watcher.Watcher` shows a run, while its block lasts.

    Parameters
    ----------
    path : Path
        The file.
    speed : float
        How many times faster than it was; infinite: as fast as it can be read.

    Raises
    ------
    SessionError
        If it is no session, or has no look.
    ValueError
        If the speed is not positive.
    """

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"a speed of {speed:g} shows nothing; give a positive one, 1 for as it was")
        self._speed, self._looks = speed, looks(path)
        first = next(self._looks, None)
        if first is None:
            raise SessionError(f"{path} holds no look: it was ended before there was one")
        self._sight, self._observation = first, _observation(first)
        self._history = History()
        self._history.add(first)
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._play, name="replay", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._looks.close()  # type: ignore[attr-defined]

    @property
    def ended(self) -> bool:
        """Whether the last look is shown."""
        return self._done.is_set()

    @property
    def observation(self) -> Observation | None:
        """The observation, if its file could be read."""
        return self._observation[1]

    def sight(self) -> Sight:
        """Give the look that is shown."""
        with self._changed:
            return self._sight

    def wait(self, after: float, timeout: float) -> Sight | None:
        """Wait for a look other than that of a time; None if there is none within so many seconds, or any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._sight.time != after or self._done.is_set(), timeout)
            return self._sight if self._sight.time != after else None

    def choose(self, products: Sequence[int]) -> None:
        """Nothing can be asked for any more: what was chosen then is there."""

    def history(self) -> Sequence[Sight]:
        """Give what was shown lately, oldest first."""
        return self._history.sights()

    def _play(self) -> None:
        begun, origin = time.monotonic(), self._sight.time
        for sight in self._looks:
            if not 0 <= sight.time - self._sight.time < _LONG:
                begun, origin = time.monotonic(), sight.time
            left = begun + (sight.time - origin) / self._speed - time.monotonic()
            if self._stopped.wait(max(0.0, left)):
                break
            if sight.text and sight.text != self._observation[0]:
                self._history.clear()
            if sight.text and (sight.text != self._observation[0] or self._observation[1] is None):
                self._observation = _observation(sight)
            self._history.add(sight)
            with self._changed:
                self._sight = sight
                self._changed.notify_all()
        self._done.set()
        with self._changed:
            self._changed.notify_all()


def replay(path: Path, speed: float = 1.0) -> Replay:
    """Show a recorded session again; see `Replay`."""
    return Replay(path, speed)


def _observation(sight: Sight) -> tuple[str, Observation | None]:
    return sight.text, read_observation(sight.text, [e.values for e in sight.engines])
