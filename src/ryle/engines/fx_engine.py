"""F and X in one process, live: packets of samples of all antennas in, a file of the whole band out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ryle.config import Observation
from ryle.engines import f_gpu
from ryle.engines.budget import sample_map
from ryle.engines.f import Channelize
from ryle.engines.fx import fx_steps
from ryle.engines.gpus import gpus_for, locked
from ryle.engines.output import choose_file, measure_file, open_file, published, tell, watchable
from ryle.engines.serving import entrance_metrics, serve_engine
from ryle.engines.steered import SteeringControls
from ryle.engines.steering import Steering
from ryle.engines.totals import measure
from ryle.engines.trigger import Trigger
from ryle.engines.write_file import WriteFile
from ryle.engines.x import Correlate
from ryle.monitor.status import StatusReporter
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.entrance import MappedEntrance
from ryle.stream.engine import Engine, Inlet
from ryle.stream.metrics import Registry
from ryle.stream.step import Step


def fx_engine(
    observation: Observation,
    opened: Callable[[], UVH5Writer],
    steering: Steering | None = None,
    output: Path | None = None,
) -> tuple[Engine, WriteFile]:
    """Make F and X of all antennas: receive, channelize, correlate, write; and write samples when somebody triggers.

    Parameters
    ----------
    observation : Observation
        What is observed.
    opened : callable
        Opens the file, when there is something to write.
    steering : Steering, optional
        Gives delays and gains; as the observation says if absent.
    output : Path, optional
        Directory for what triggers write, instead of the observation's.

    Returns
    -------
    engine : Engine
        Not yet started.
    write : WriteFile
        The step that writes the file.

    Raises
    ------
    GpuUnavailable
        If it is to run on a GPU that there is not; no socket has been opened.
    OSError
        If it cannot receive.
    """
    o, antennas = observation, range(len(observation.antennas))
    gpus = gpus_for(o, "fx")
    samples = sample_map(o, "fx", antennas)
    entrance = MappedEntrance(
        o,
        "fx",
        samples,
        o.digitizer_endpoints(antennas),
        name="digitizer",
        memory=locked(gpus),
        gpu=gpus[0] if gpus else None,
    )
    steering = steering or Steering(o, antennas)
    steps = fx_steps(o, entrance, samples, opened, gpus, steering, joins=o.simulate is None)
    write = steps[-1]
    assert isinstance(write, WriteFile)
    trigger = Trigger(o, antennas, entrance, samples, "fx0", output)
    metrics = _metrics(o, entrance, steps, write)
    SteeringControls(o, antennas, steering).register(metrics)
    trigger.register(metrics)
    return Engine([entrance], [*steps, trigger], metrics), write


def _metrics(o: Observation, entrance: Inlet, steps: Sequence[Step], write: WriteFile) -> Registry:
    """Say of each step what its engine would; how far it is, is how far the file goes."""
    m = entrance_metrics(entrance, o.digitizer_heap_bytes, "packets of samples")
    measure_file(m, o, write)
    parts = [step.totals for step in steps if isinstance(step, Channelize | f_gpu.Channelize)]
    measure(m, parts, o, range(len(o.antennas)), entrance)
    (x,) = (step.x for step in steps if isinstance(step, Correlate))
    m.counter("late_blocks", "blocks", "blocks of integrations that were given already", lambda: x.late_blocks)
    m.counter("early_blocks", "blocks", "blocks before the first whole integration", lambda: x.early_blocks)
    return m


def serve(
    observation: Observation,
    output: Path | None,
    supervised: bool,
    *,
    file: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Be F and X: receive samples of all antennas, write one file, until told to drain.

    Parameters
    ----------
    observation : Observation
        What is observed.
    output : Path, optional
        Directory to write to, instead of the observation's.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    file : Path, optional
        File to write, which a supervisor has chosen; else the first that no earlier run has left.
    overwrite : bool
        Replace what an earlier run has left.
    """
    identity = {"role": "fx", "index": 0}
    file = choose_file(observation, output, file, overwrite=overwrite)
    engine, write = fx_engine(
        observation, lambda: open_file(observation, file, overwrite=overwrite), output=file.parent
    )
    glances = watchable(observation, engine.metrics, write, file)
    reporter = StatusReporter(identity, engine.metrics)
    glances.keep = reporter.keep
    tell(reporter, write)
    write.open()
    with published(observation, write, engine.metrics, glances):
        serve_engine(engine, observation, identity, supervised, reporter)
