"""Looks for the web page, over a websocket, for many viewers: one that stalls misses looks, and costs nobody anything.

A viewer says what it wants (`ryle.serve.pictures.WANTED`), ``{"want": ["sight", "bandpass"]}``, and gets the newest of
that as often as it can take it. Nothing waits in a line: who comes back late gets what is newest then. Parts are made
once, for all.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.websockets import WebSocket, WebSocketDisconnect

from ryle.serve.levels import LevelPictures
from ryle.serve.pictures import WANTED, GlancePictures, losses_part, packed, sight_part
from ryle.watch.baseline import Baseline, newest_glance
from ryle.watch.sight import Sight
from ryle.watch.watcher import Watching

#: Viewers at once, parts that one may want, looks that one gets a second.
MOST_VIEWERS, MOST_WANTED, MOST_RATE = 40, 16, 25.0
_LONGEST = 4096  # characters of what a viewer says
_PATIENCE = 1.0  # seconds for a look
_PAUSE = 0.2  # seconds after which it is asked for again, where nothing waits: of a session that has ended
_REFUSED, _TOO_MANY = 1008, 1013  # RFC 6455's, and its registry's, codes of why a connection is closed


@dataclass(eq=False)
class _Viewer:
    """Who watches: what is wanted, and what was sent of it."""

    want: tuple[str, ...] = ("sight",)
    newer: asyncio.Event = field(default_factory=asyncio.Event)
    sent: dict[str, object] = field(default_factory=dict)


class Live:
    """Gives viewers looks.

    Parameters
    ----------
    watcher : Watching
        Where they come from.
    """

    def __init__(self, watcher: Watching) -> None:
        self._watcher = watcher
        self._viewers: set[_Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._sight: Sight | None = None
        self._state = b""
        self._pictures: GlancePictures | None = None
        self._levels: LevelPictures | None = None
        self._said: set[str] = set()

    async def serve(self, socket: WebSocket) -> None:
        """Serve a viewer until it goes."""
        await socket.accept()
        if len(self._viewers) >= MOST_VIEWERS:
            await socket.close(_TOO_MANY, f"{MOST_VIEWERS} watch already; close a page that nobody looks at")
            return
        viewer = _Viewer()
        self._viewers.add(viewer)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        viewer.newer.set()
        listening = asyncio.create_task(self._listen(socket, viewer))
        tasks = {listening, asyncio.create_task(self._send(socket, viewer))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._viewers.discard(viewer)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            if (error := task.exception()) is not None and not isinstance(error, WebSocketDisconnect | OSError):
                raise error
        if listening in done and listening.exception() is None and listening.result():
            await socket.close(_REFUSED, 'say {"want": ["sight", …]}')  # now that nothing is being sent

    async def _follow(self) -> None:
        """Wait for looks as long as somebody watches."""
        while self._viewers:
            after = float("nan") if self._sight is None else self._sight.time
            sight = await asyncio.to_thread(self._watcher.wait, after, _PATIENCE)
            if sight is None:
                await asyncio.sleep(_PAUSE)
                continue
            self._sight = sight
            try:
                await self._draw(sight)
            except Exception as error:  # nobody knows what may lie in shared memory; the next look may be better
                self._say(f"a look could not be sent: {type(error).__name__}: {error}")
                continue
            for viewer in self._viewers:
                viewer.newer.set()

    async def _draw(self, sight: Sight) -> None:
        """Have ready what viewers may want of a look."""
        observation, history = self._watcher.observation, self._watcher.history()
        glance = newest_glance(sight, history)
        state = await asyncio.to_thread(sight_part, sight, observation)
        if glance is None:
            self._pictures = None
        elif self._pictures is None or self._pictures.glance is not glance:
            self._pictures = GlancePictures(glance, observation, history)
        if sight.histograms is None:
            self._levels = None
        elif self._levels is None or self._levels.histograms is not sight.histograms:
            self._levels = LevelPictures(sight.histograms)
        self._state = state

    def _say(self, what: str) -> None:
        """Say something on standard error, once."""
        if what not in self._said:
            self._said.add(what)
            print(what, file=sys.stderr, flush=True)

    async def _listen(self, socket: WebSocket, viewer: _Viewer) -> bool:
        """Take what a viewer wants, until it goes, or says anything else: whether it does."""
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return False
            want = wanted(message.get("text"))
            if want is None:
                return True
            viewer.want = want
            viewer.sent.clear()
            viewer.newer.set()

    async def _send(self, socket: WebSocket, viewer: _Viewer) -> None:
        """Send the newest, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            await viewer.newer.wait()
            viewer.newer.clear()
            if not self._state:
                continue
            due = loop.time() + 1 / MOST_RATE
            self._watcher.choose(self._products(viewer.want))
            for name in viewer.want:
                key = self._key(name)
                if name in viewer.sent and viewer.sent[name] is key:
                    continue
                viewer.sent[name] = key
                if name == "sight":
                    data = self._state
                elif name == "losses":
                    data = await asyncio.to_thread(losses_part, self._watcher.history())
                elif key is None:
                    what = "ADC values have" if _of_levels(name) else "integration has"
                    data = packed(name, {"problem": f"no {what} been seen yet"})
                else:
                    assert isinstance(key, GlancePictures | LevelPictures)
                    data = await asyncio.to_thread(key.part, name)
                await socket.send_bytes(data)
            await asyncio.sleep(max(0.0, due - loop.time()))

    def _key(self, name: str) -> object:
        """Give what changes whenever a part does."""
        if name == "losses":
            return True
        if name == "sight":
            return self._state
        return self._levels if _of_levels(name) else self._pictures

    def _products(self, want: Sequence[str]) -> list[int]:
        """Give the products whose whole spectra are wanted."""
        glance = None if self._pictures is None else self._pictures.glance
        found = []
        for name in want:
            if glance is not None and name.startswith("spectra/"):
                i, j = (int(n) for n in name.removeprefix("spectra/").split("-"))
                if max(i, j) < glance.antennas * glance.pols:
                    found.append(Baseline.of(i, j, glance.pols).product)
        return found


def _of_levels(name: str) -> bool:
    return name.partition("/")[0] == "levels"


def wanted(text: str | None) -> tuple[str, ...] | None:
    """Read what a viewer says; None if that is anything else."""
    if text is None or len(text) > _LONGEST:
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or set(said) != {"want"} or not isinstance(said["want"], list):
        return None
    want = said["want"]
    if len(want) > MOST_WANTED or not all(isinstance(name, str) and WANTED.fullmatch(name) for name in want):
        return None
    return tuple(dict.fromkeys(want))
