"""Where a run's engines are, if these are hosts of a Ray cluster: a keeper for each, where the plan has it.

Ray places keepers by label of node and by cores, GPUs and memory, starts them again where it lost them, on the plan's
host if that is there, else on one that has nothing of the plan. Keepers stay when whoever started them goes: the same
command finds them and goes on watching.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from ryle.config import ConfigError, Observation, Problem
from ryle.config.endpoints import read_endpoint
from ryle.deploy.cluster import HOST_LABEL, answers, nodes
from ryle.deploy.jobs import files_of, job_of
from ryle.deploy.keeper import KeeperActor
from ryle.deploy.kept import OBSERVATION, end_all
from ryle.deploy.mirror import Mirror, News
from ryle.deploy.processes import Deployment, Process
from ryle.engines.site import Say, join
from ryle.engines.supervisor import RunError
from ryle.problems import listed
from ryle.products.observed import output_file

_TURN = 0.25  # seconds between two looks at all keepers
_ROOM = 60.0  # seconds in which Ray must have found room for all
_PATIENCE = 30.0  # seconds for engines that nobody keeps to end
_ANSWER = 10.0  # seconds for a keeper's answer
_LOOK = 2.0  # seconds between two looks at the cluster's head


class ClusterLostError(RunError):
    """The head of the cluster does not answer; engines go on."""


class Kept:
    """An engine whose process is kept elsewhere; see `ryle.engines.site.Running`.

    Parameters
    ----------
    site : OnRay
        Whose.
    name : str
        Of the engine, as the plan has it.
    actor : actor handle
        Its keeper.
    line, word : callable
        Take its lines, and its last words.
    """

    kept = True

    def __init__(self, site: OnRay, name: str, actor: Any, line: Say, word: Say) -> None:
        self._site, self.name, self.actor = site, name, actor
        self._line, self._word = line, word
        self.host = self.log = self.keeper = ""
        self.since = 0
        self.ended: int | None = None
        self._listens = False
        self._line('{"state": "ready"}')

    def take(self, report: Any) -> None:
        """Take what its keeper says."""
        self.keeper, self.since, self.host, self.log = report.keeper, report.until, report.host, report.log
        for line in report.lines:
            self._line(self._told(line))
        if report.ended is not None and self.ended is None:
            for word in report.words:
                self._word(word)
            self.ended = report.ended

    def _told(self, line: str) -> str:
        """Say of an engine that starts when it is told to go, and then at once, what one says that waits for it."""
        if '"state"' not in line:
            return line
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            return line  # words of something else
        if not isinstance(said, dict) or not isinstance(said.get("state"), str):
            return line
        if said["state"] == "ready":  # again and again, until something comes
            said["state"] = "listening"
        elif said["state"] == "starting" and not self._listens:
            said["state"] = "ready"
        self._listens |= said["state"] != "ready"
        return json.dumps(said)

    def say(self, event: str, why: str) -> None:
        """Say what its keeper cannot."""
        self._line(json.dumps({"event": event, "why": why, "host": self.host}))

    def poll(self) -> int | None:
        """See `Running`; a cluster that is lost ends the supervision, and nothing else."""
        if self._site.lost is not None:
            raise ClusterLostError(self._site.lost)
        return self.ended

    def tell(self, order: str) -> None:
        """See `Running`."""
        self._site.call(self.actor.start.remote() if order == "go" else self.actor.tell.remote(order))

    def kill(self) -> None:
        """See `Running`."""
        self._site.call(self.actor.kill.remote())

    def close(self) -> None:
        """See `Running`; ends its keeper too."""
        if self._site.lost is None:
            if self.ended is None:
                self.kill()
            self._site.call(self.actor.forget.remote())
            self._site.ray.kill(self.actor, no_restart=True)


class OnRay:
    """Where a run's engines are, if these are hosts of a Ray cluster; see `ryle.engines.site.Site`. A context.

    Parameters
    ----------
    ray : module
        Connected (`ryle.deploy.cluster.connect`).
    deployment : Deployment
        What runs where.
    console : Console
        Where it is said what Ray does.
    """

    observation = OBSERVATION

    def __init__(self, ray: Any, deployment: Deployment, console: Console) -> None:
        self.ray = ray
        #: Why the cluster is lost; None: it is not.
        self.lost: str | None = None
        self._plan = deployment
        self._console = console
        self._processes = {p.name: p for p in deployment.processes}
        o = deployment.observation
        self._run = f"{deployment.name}-{hashlib.sha256(o.text.encode()).hexdigest()[:12]}"
        self._actors: dict[str, Any] = {}
        self._kept: list[Kept] = []
        self._stop = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="keepers", daemon=True)
        self._mirror = Mirror(self._pages, self._ask)
        self._head = ray.get_runtime_context().gcs_address

    def __enter__(self) -> OnRay:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None) -> None:
        self._stop.set()
        if self._poller.is_alive():
            self._poller.join(timeout=_ANSWER)
        self._mirror.close()
        if self.lost is None and self._kept:
            self._sweep()

    # -- what a run asks of a site ----------------------------------------------------------------------------------

    def check(self, observation: Observation, simulate: bool) -> None:
        """Refuse a plan whose hosts are not there, or a simulation without a clock.

        Raises
        ------
        ConfigError
            Names what is wrong, and what mends it.
        """
        o = observation
        if simulate and o.at_full_speed:
            remedy = "senders look how full receivers' sockets are, which they can on one host only: give a number"
            raise ConfigError(o.source, [Problem("simulate.speed", "max", remedy)])
        there = {node.host for node in nodes(self.ray)}
        if missing := [host.name for host in self._plan.hosts if host.name not in there]:
            remedy = (
                f"no node of the Ray cluster is {listed(missing)}; it has {listed(sorted(there))}: on each host "
                f"`ray start --address {self._head} --labels {HOST_LABEL}=NAME`, or name others in the plan"
            )
            raise ConfigError(str(self._plan.plan), [Problem("hosts", len(self._plan.hosts), remedy)])

    def choose_file(self, observation: Observation, output: Path | None, *, overwrite: bool) -> Path:
        """See `Site`; that of a run that is taken up again stays."""
        output = (Path(observation.output.directory) if output is None else output).absolute()  # as seen from here
        catcher = next((p for p in self._plan.processes if p.stage in ("catcher", "fx")), None)
        if catcher is None:
            return output_file(observation, output, overwrite=overwrite)
        actor = self._find(catcher.name)
        if actor is not None and (into := self.ray.get(actor.into.remote(), timeout=_ANSWER)):
            return Path(into)
        chosen: Path = self._there(catcher.host, output_file, observation, output, overwrite=overwrite)
        return chosen

    def prepare(self, commands: Sequence[tuple[str, int, Sequence[str]]]) -> None:
        """Find room for all engines before any starts.

        Raises
        ------
        RunError
            If there is none: names the engines, and what they want.
        """
        plan = {host.name for host in self._plan.hosts}
        files = files_of(self._plan.observation)
        again = 0
        for role, index, command in commands:
            process = self._processes[_name(role, index)]
            found = self._find(process.name)
            again += found is not None
            self._actors[process.name] = found or self._keeper(process, command, files, plan)
        waiting = {actor.host.remote(): name for name, actor in self._actors.items()}
        ready, pending = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=_ROOM)
        if pending:
            for actor in self._actors.values():
                self.ray.kill(actor, no_restart=True)
            wanted = [f"{waiting[ref]} ({_wants(self._processes[waiting[ref]])})" for ref in pending]
            raise RunError(
                f"Ray finds no room for {listed(wanted)}: `ray status` says what is used; nothing has been started"
            )
        for ref in ready:
            try:
                self.ray.get(ref)
            except self.ray.exceptions.RayError as error:
                raise RunError(f"the keeper of {waiting[ref]} cannot begin: {error}") from None
        if again:
            self._say(f"{again} engines run already: this command goes on watching them")
        self._poller.start()
        self._mirror.start()

    def launch(self, role: str, index: int, command: Sequence[str], line: Say, word: Say) -> Kept:
        """See `Site`; room was found by `prepare`. It starts when it is told to go: receivers before senders."""
        name = _name(role, index)
        kept = Kept(self, name, self._actors[name], line, word)
        self._mirror.add(name)
        self._kept.append(kept)
        return kept

    def join(self, observation: Observation, file: Path, console: Console, *, overwrite: bool, perhaps: bool) -> int:
        """See `Site`; on the first catcher's host, which must see the others' directories."""
        host = next(p.host for p in self._plan.processes if p.stage == "catcher")
        count, said = self._there(host, _join, observation, file, overwrite, perhaps)
        for text in said:
            console.print(text, highlight=False, soft_wrap=True)
        return int(count)

    # -- Ray --------------------------------------------------------------------------------------------------------

    def call(self, ref: Any) -> None:
        """Wait for an answer to what a keeper was told; without one it was told in vain, and its end will say so."""
        try:
            self.ray.get(ref, timeout=_ANSWER)
        except (self.ray.exceptions.RayError, self.ray.exceptions.GetTimeoutError):
            pass

    def _find(self, name: str) -> Any | None:
        try:
            return self.ray.get_actor(f"{self._run}/{name}")
        except ValueError:
            return None

    def _keeper(self, p: Process, command: Sequence[str], files: dict[str, bytes], plan: set[str]) -> Any:
        """Make the keeper of an engine, on its host; or on one that has nothing of the plan, if it can move."""
        job = job_of(self._run, p, command, files)
        movable = p.stage != "simulate" and self._by_multicast(p)
        return (
            self.ray.remote(KeeperActor)
            .options(
                name=f"{self._run}/{p.name}",
                lifetime="detached",
                max_restarts=-1,
                max_concurrency=4,
                num_cpus=len(p.cores) or 1,
                num_gpus=self._share(p),
                memory=p.memory,
                label_selector={HOST_LABEL: p.host},
                fallback_strategy=[{"label_selector": {HOST_LABEL: f"!in({','.join(sorted(plan))})"}}]
                if movable
                else None,
            )
            .remote(job, HOST_LABEL)
        )

    def _by_multicast(self, p: Process) -> bool:
        """Whether an engine receives the same wherever it is."""
        o = self._plan.observation
        kind = "fx" if p.stage == "fx" else p.stage
        assert kind != "simulate"
        index = int(p.name.removeprefix(kind))
        return all(read_endpoint(str(e)).multicast for e in o.engine_endpoints(kind, index))

    def _share(self, p: Process) -> float:
        """GPUs of an engine, as Ray counts them; a part of one that it shares."""
        if len(p.gpus) != 1:
            return len(p.gpus)
        others = sum(q.gpus == p.gpus for q in self._plan.on(p.host))
        return int(10_000 / others) / 10_000

    def _there(self, host: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function on a host."""
        task = self.ray.remote(function).options(num_cpus=0, label_selector={HOST_LABEL: host}, max_retries=1)
        return self.ray.get(task.remote(*arguments, **options), timeout=_ROOM)

    def _poll(self) -> None:
        """Ask all keepers, again and again; say of which nothing is heard, and of all when the cluster is lost."""
        silent: set[Kept] = set()
        heard = headed = looked = time.monotonic()
        while not self._stop.wait(_TURN):
            try:
                asked = {k.actor.report.remote(k.keeper, k.since): k for k in self._kept if k.ended is None}
                if not asked:
                    continue
                ready, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=2.0)
                for ref in ready:
                    k = asked[ref]
                    try:
                        k.take(self.ray.get(ref))
                        heard = time.monotonic()
                        if k in silent:
                            silent.remove(k)
                            k.say("heard", f"its keeper answers again, at {k.host}")
                    except self.ray.exceptions.RayActorError:
                        if k not in silent:
                            silent.add(k)
                            k.say("unheard", f"its keeper at {k.host} does not answer; Ray starts another one")
            except Exception as error:  # Ray's own end; whatever it is, engines go on
                self.lost = f"the Ray cluster is lost ({error}); {_GO_ON}"
                return
            if (now := time.monotonic()) - looked > _LOOK:
                looked = now
                headed = now if answers(self._head) else headed
            if now - headed > 2 * _ANSWER:  # Ray ends this process when it has been without its head for a minute
                self.lost = f"the head of the Ray cluster, {self._head}, does not answer; {_GO_ON}"
                return
            if now - heard > 3 * _ANSWER and not self._stop.is_set():
                self.lost = f"no keeper has answered for {3 * _ANSWER:g} s; {_GO_ON}"
                return

    def _pages(self, seen: Mapping[str, Mapping[str, int]]) -> dict[str, News | None]:
        """Ask keepers what is new on their engines' pages; of those that do not answer there is none."""
        if self.lost is not None:
            return {}
        asked = {self._actors[name].page.remote(dict(times)): name for name, times in seen.items()}
        ready, silent = self.ray.wait(list(asked), num_returns=len(asked), timeout=2.0) if asked else ([], [])
        found: dict[str, News | None] = {}
        for ref in ready:
            try:
                found[asked[ref]] = self.ray.get(ref)
            except self.ray.exceptions.RayError:
                found[asked[ref]] = None
        return found | {asked[ref]: None for ref in silent}

    def _ask(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """Pass on what the page of an engine here is asked."""
        try:
            if self.lost is not None:
                raise ClusterLostError("the Ray cluster is lost")
            answer: dict[str, Any] = self.ray.get(self._actors[name].ask.remote(request), timeout=_ANSWER)
            return answer
        except (RunError, self.ray.exceptions.RayError, self.ray.exceptions.GetTimeoutError) as error:
            return {"key": str(request.get("key")), "refused": f"{name} cannot be asked just now: {error}"}

    def _sweep(self) -> None:
        """End what runs on though its keeper was lost: on a host that came back, while a spare one had taken over."""
        hosts = {node.host for node in nodes(self.ray)}
        tasks = {
            host: self.ray.remote(end_all)
            .options(num_cpus=0, label_selector={HOST_LABEL: host})
            .remote(self._run, host, _PATIENCE)
            for host in sorted(hosts)
        }
        for host, task in tasks.items():
            try:
                for name in self.ray.get(task, timeout=2 * _PATIENCE):
                    self._say(f"{name} still ran at {host}, where its keeper was lost: ended")
            except (self.ray.exceptions.RayError, self.ray.exceptions.GetTimeoutError) as error:
                self._say(f"[yellow]{host}: not known whether anything still runs there ({error})[/]")
        for gone in sorted({host.name for host in self._plan.hosts} - hosts):
            self._say(f"[yellow]{gone} has left the cluster: what may still run there ends by `pkill -TERM ryle`[/]")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


_GO_ON = "engines go on without it, and nothing is lost. Start Ray again and give this command again: it finds them"


def _name(role: str, index: int) -> str:
    return role if role == "simulate" else f"{role}{index}"


def _wants(p: Process) -> str:
    gpus = f", {len(p.gpus)} GPU" if p.gpus else ""
    return f"{len(p.cores) or 1} CPU{gpus} and {p.memory / 2**30:.1f} GiB at {p.host}"


def _join(o: Observation, file: Path, overwrite: bool, perhaps: bool) -> tuple[int, list[str]]:
    said: list[str] = []
    return join(o, file, said.append, overwrite=overwrite, perhaps=perhaps), said
