"""Memory is stated as engines allocate it, and what does not fit is refused before anything starts."""

import contextlib
import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from ryle.chunk import Integration
from ryle.config import ConfigError, changed
from ryle.engines import budget
from ryle.engines.f import f_engine
from ryle.engines.fx_engine import fx_engine
from ryle.engines.x import x_engine
from ryle.products import cuts
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.samples import SampleMap


def ryle(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ryle", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


def rings(engine):
    """Bytes of an engine's rings of blocks, and of the ring that it receives into."""
    own = 0
    for step in engine.steps:
        for block in getattr(getattr(step, "_out", None), "_spare", ()):
            data = block.data
            own += data.nbytes if hasattr(data, "nbytes") else data.visibilities.nbytes + data.counts.nbytes
    return own, sum(e.assembler.memory.nbytes for e in engine.entrances)


@pytest.mark.parametrize("sends", ["rows", "meerkat"])
@pytest.mark.parametrize("simulate", ['speed = "max"', "speed = 1.0"])
def test_what_is_stated_is_what_engines_have(observe, sends, simulate):
    o = observe(sends=sends, simulate=simulate)
    stated = {m.name.split(",")[0]: m.bytes for m in budget.memory(o)}
    engine, _ = f_engine(o, 0)
    with engine:
        assert (stated["F-engine spectra"], stated["F-engine receive ring"]) == rings(engine)
    with x_engine(o, 0) as engine:
        sums, received = rings(engine)
        assert stated["X-engine receive ring"] == received
        assert stated["X-engine sums"] == sums * 4 // 3  # and those that it adds to
    assert all(0.1 <= seconds < 3 for seconds in budget.latency(o).values())
    assert set(budget.latency(o)) == {"f", "x", "catcher"}


@pytest.mark.parametrize("simulate", ['speed = "max"', "speed = 1.0"])
def test_what_is_stated_is_what_one_process_has(observe, simulate):
    o = changed(observe(sends="rows", sub=64, simulate=simulate), fx={})
    stated = {m.name.split(",")[0]: m.bytes for m in budget.memory(o)}
    engine, _ = fx_engine(o, lambda: None)
    with engine:
        held, received = rings(engine)
    assert stated["FX receive ring"] == received
    assert stated["FX spectra"] + stated["FX sums"] * 3 // 4 == held  # and those that it adds to
    assert set(budget.latency(o)) == {"fx"} and o.engines == {"fx": 1}
    longer = changed(o, catcher={"integration": 4 * Fraction(o.integration_time)})
    assert sum(m.bytes for m in budget.memory(longer)) > sum(stated.values())


def test_slabs_of_the_file_are_what_its_writer_makes(observe, tmp_path, monkeypatch):
    monkeypatch.setattr(cuts, "_CHUNK_BYTES", 4096)  # several of each of a small integration
    monkeypatch.setattr(cuts, "_SLAB_BYTES", 4096)
    o = changed(observe(sends="rows", sub=64), fx={})
    (stated,) = (m.bytes for m in budget.memory(o) if "slabs" in m.name)
    sums, counts = np.ones((64, o.products, 2), np.int64), np.ones((1, o.products), np.uint32)
    with contextlib.closing(UVH5Writer(tmp_path / "one.uvh5", metadata(o))) as writer:
        for first in range(0, 4 * o.integration_spectra, o.integration_spectra):
            writer.append(Integration(first, o.integration_spectra, 0, sums, counts))
        held = sum(slab.nbytes for slab in writer._slabs._spare)
    assert stated / 2 <= held <= stated  # a thread may end before another begins


def test_samples_that_are_decoded_take_memory(observe):
    o = observe(sends="rows")
    rate, plain = o.sample_rate, {m.name for m in budget.memory(o)}
    coded = changed(o, digitizer={"packets": "vdif", "bits": 8, "heap_samples": math.gcd(int(rate), 1280)})
    (decoded,) = (m for m in budget.memory(coded) if m.name not in plain and "decoded" in m.name)
    samples = SampleMap(coded, coded.f_engine_antennas(0), waits=coded.at_full_speed)
    blocks, left = divmod(decoded.bytes, 4 * math.prod(samples.plan.shape))
    assert not left and 2 <= blocks < samples.plan.chunks


def test_what_does_not_fit_is_refused_with_what_makes_it_smaller(observe, monkeypatch):
    o, everything = observe(sends="rows"), {"f": 1, "x": 2, "catcher": 1}
    needed = sum(m.bytes * m.count for m in budget.memory(o))
    monkeypatch.setattr(budget, "available", lambda: needed)
    budget.afford(o, everything)
    assert not list(budget.cautions(o))
    monkeypatch.setattr(budget, "available", lambda: needed - 1)
    with pytest.raises(ConfigError, match="skew"):
        budget.afford(o, everything)
    budget.afford(o, {"f": 1})  # on a host of its own
    (caution,) = budget.cautions(o)
    assert caution.key == "network.skew" and "F-engine" in caution.remedy
    one = changed(observe(sends="rows", sub=64), fx={})
    monkeypatch.setattr(budget, "available", lambda: sum(m.bytes for m in budget.memory(one)) - 1)
    with pytest.raises(ConfigError, match=r"1 FX here(?s:.*)Lower it, or remove \[fx\]"):
        budget.afford(one, one.engines)


@pytest.mark.parametrize("fx", [False, True])
def test_samples_that_are_kept_take_memory(observe, monkeypatch, fx):
    o = observe(sends="rows", sub=64)
    o = changed(o, fx={}) if fx else o
    kept = changed(o, fengine={"history": 0.5})
    engine, kind = (fx_engine(kept, lambda: None)[0], "FX") if fx else (f_engine(kept, 0)[0], "F-engine")
    with engine:
        _, received = rings(engine)
    (ring,) = (m for m in budget.memory(kept) if m.name.startswith(f"{kind} receive ring"))
    (before,) = (m for m in budget.memory(o) if m.name.startswith(f"{kind} receive ring"))
    assert ring.bytes == received
    held = 0.5 * float(o.sample_rate) * o.n_inputs  # of 8 bits
    assert held <= ring.bytes - before.bytes < 1.1 * held
    monkeypatch.setattr(budget, "available", lambda: sum(m.bytes * m.count for m in budget.memory(kept)) - 1)
    with pytest.raises(ConfigError, match=r'fengine\.history = "500 ms"(?s:.*)receive ring(?s:.*)Lower it'):
        budget.afford(kept, kept.engines)
    budget.afford(o, o.engines)


def test_commands_refuse_before_anything_starts(observation_text, tmp_path):
    """Ten seconds of skew, of many inputs and channels: more than any machine has."""
    text = observation_text(
        antennas=6, rate=4_000_000_000, channels=1024, sends="rows", packet=8192, duration=1, integration_spectra=8192
    )
    path = tmp_path / "huge.toml"
    path.write_text(text.replace("[network]", '[network]\nskew = "10 s"'))
    for command in (["engine", "f", path], ["run", path, "--no-simulate", "-o", tmp_path / "out"]):
        result = ryle(*command)
        assert result.returncode and "network.skew" in result.stderr and "available" in result.stderr, result.stderr
    assert not (tmp_path / "out").exists()
    found = json.loads(ryle("check", path, "--json").stdout)
    assert "network.skew" in {c["key"] for c in found["cautions"]}


@pytest.mark.parametrize("channels", [64, 1024, 32768])
def test_batches_fit_everything_behind_them(observe, channels):
    o = observe(channels=channels, rate=20_000_000, max_delay=1e-6, spectra=96, integration_spectra=192, packet=8192)
    assert o.batch_spectra == 192 and o.f_batches >= 1
