"""What Prometheus is told: read back by its own client's parsers, and by a real Prometheus where there is one."""

import ast
import math
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

import ryle
from ryle.serve.metrics import CLASSES, TOLD, content, exposition, named
from ryle.watch.sight import STAGES, InputSight, Sight
from sights import ACCOUNT, alarm, engine, look

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def series(sight, **labels):
    """Give all samples of a look that have these labels: by name, a list of (labels, value)."""
    found = {}
    for family in read_text(exposition(sight).decode()):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(sight, name, **labels):
    """Give the one sample of a name and labels; None if there is none."""
    found = series(sight, **labels).get(name, [])
    assert len(found) <= 1, found
    return found[0][1] if found else None


def test_every_count_of_an_account_and_nothing_of_those_that_nobody_knows():
    told = {labels["class"]: count for labels, count in series(look())["ryle_account_total"]}
    assert told == {kind: ACCOUNT[kind] for kind in CLASSES if ACCOUNT[kind] is not None}
    assert "kernel_drops" not in told
    assert value(look(), "ryle_account_expected_total", unit="packets", engine="f0", role="f", index="0") == 1000
    assert value(look(), "ryle_account_arrived_total", observation="night 3") == 1017 + 7


def test_figures_come_by_what_engines_say_of_them():
    found = look()
    assert value(found, "ryle_payload_bytes_total", engine="f0") == 990 * 4096
    assert value(found, "ryle_received_packets_total") == 990
    assert value(found, "ryle_position_seconds") == 12.5
    assert value(found, "ryle_resyncs_total") == 1
    assert {labels["part"]: n for labels, n in series(found)["ryle_ring_blocks"]} == {
        "open": 2,
        "ready": 1,
        "taken": 3,
        "free": 10,
    }


def test_what_an_engine_uses():
    found = look()
    assert value(found, "ryle_cpu_seconds_total", engine="f0") == 61.5
    assert value(found, "ryle_cores") == 4 and value(found, "ryle_memory_bytes") == 3 << 30
    assert value(found, "ryle_gpu_busy_ratio", part="1") == 0.37
    assert value(found, "ryle_gpu_power_watts", part="1") == 212.5
    assert value(found, "ryle_gpu_memory_bytes") / value(found, "ryle_gpu_memory_size_bytes") == 0.15


def test_a_figure_that_is_new_needs_no_line_of_code():
    e = engine(lag=250, input_beat=[3, 4.5], warmth=61, text="no number", nothing=None, odd=[1, 2, 3])
    kinds = {
        "lag": ("gauge", "ms", "behind the signal"),
        "input_beat": ("gauge", "Hz", "of each input"),
        "warmth": ("gauge", "°C", "of the GPU"),
        "odd": ("gauge", "", "a list of something else"),
    }
    e = replace(e, kinds=e.kinds | kinds | dict.fromkeys(("text", "nothing"), ("gauge", "", "…")))
    found = look(e)
    assert value(found, "ryle_lag_seconds") == 0.25
    assert value(found, "ryle_warmth_celsius") == 61
    assert value(found, "ryle_input_beat_hertz", antenna="A 1", polarization="y", input="1") == 4.5
    assert {"ryle_text", "ryle_nothing", "ryle_odd"}.isdisjoint(series(found))


@pytest.mark.parametrize(
    ("figure", "kind", "unit", "name", "scale"),
    [
        ("sent", "counter", "heaps", "ryle_sent_heaps_total", 1),
        ("bytes", "counter", "B", "ryle_payload_bytes_total", 1),
        ("memory", "gauge", "GiB", "ryle_memory_bytes", 2**30),
        ("saturated", "gauge", "", "ryle_saturated_ratio", 1),
        ("load", "gauge", "%", "ryle_load_ratio", 0.01),
        ("integrations", "counter", "integrations", "ryle_integrations_total", 1),
        ("GPU power", "gauge", "W", "ryle_gpu_power_watts", 1),
    ],
)
def test_names(figure, kind, unit, name, scale):
    assert named(figure, kind, unit) == (name, scale)


def test_an_engine_is_in_one_state_and_its_age_is_told():
    states = {labels["state"]: n for labels, n in series(look())["ryle_engine_state"]}
    assert states.pop("running") == 1 and set(states.values()) == {0}
    assert value(look(), "ryle_engine_up") == 1
    assert value(look(), "ryle_engine_status_age_seconds") == 2.5
    gone = look(replace(engine(), alive=False, state="odd"), engine("x", 1))
    assert value(gone, "ryle_engine_up", engine="f0") == 0 and value(gone, "ryle_engine_up", engine="x1") == 1
    assert value(gone, "ryle_engine_state", engine="f0", state="odd") == 1


def test_inputs_and_what_is_not_known_of_them():
    found = look()
    x, y = {"antenna": "A 1", "polarization": "x", "input": "0"}, {"polarization": "y"}
    assert value(found, "ryle_input_rms_steps", **x) == 10
    assert value(found, "ryle_input_level_dbfs", **x) == -12.25
    assert value(found, "ryle_input_clipped_ratio", **x) == 0.002
    assert value(found, "ryle_input_saturated_ratio", **x) == 0  # known, and none
    assert value(found, "ryle_input_delay_seconds", **x) == 1.5e-9
    assert {labels["stage"]: n for labels, n in series(found, **x)["ryle_input_present_ratio"]} == {
        "ring": 0.99,
        "F": 0.98,
    }
    assert not any(name.startswith("ryle_input") for name in series(found, **y))


def test_alarms_under_way_and_over():
    found = look(
        alarms=(alarm(), alarm("loss", "F-engine 0", "warning", ended=1000.0), alarm("dead", "A 1 y", ended=980.0))
    )
    told = {(labels["kind"], labels["severity"]): n for labels, n in series(found)["ryle_alarm_active"]}
    assert told == {("dead", "error"): 1, ("loss", "warning"): 0}  # that which is back is under way
    assert value(found, "ryle_alarms", severity="error") == 1 and value(found, "ryle_alarms", severity="warning") == 0


def test_of_nothing_nothing_is_told_but_who_tells():
    assert set(series(Sight(5.0))) == {"ryle_build_info", "ryle_look_timestamp_seconds"}
    assert value(Sight(5.0), "ryle_build_info", version=ryle.__version__) == 1


def test_both_formats_say_the_same():
    sight = look(alarms=(alarm(),))
    text, plain = content(sight)
    assert plain.startswith("text/plain; version=0.0.4") and text == exposition(sight)
    body, kind = content(sight, OPENMETRICS)
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")

    def samples(families):
        return {(s.name, *sorted(s.labels.items())): s.value for f in families for s in f.samples}

    assert samples(read_openmetrics(body.decode())) == samples(read_text(text.decode()))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
words = st.sampled_from(["account", "ring", "engine up", "x", "x_total", "X", "file.integrations", "inputs", "µ"]) | (
    st.text(st.characters(codec=None), max_size=5)
)


@given(
    st.dictionaries(words, anything, max_size=6),
    st.dictionaries(words, st.tuples(st.sampled_from(["counter", "gauge", "odd"]), words, st.text()), max_size=6),
    st.text(st.characters(codec=None), max_size=8),
)
def test_whatever_lies_on_a_page_can_be_read_by_prometheus(values, kinds, name):
    e = replace(engine(), values=values, kinds=kinds, name=name, state=name)
    sight = look(e, engine(), alarms=(alarm(name, name),), observation=name)
    for accept, read in (("", read_text), (OPENMETRICS, read_openmetrics)):
        names = set()
        for family in read(content(sight, accept)[0].decode()):
            assert family.name not in names
            names.add(family.name)
            seen = [(s.name, *sorted(s.labels.items())) for s in family.samples]
            assert len(set(seen)) == len(seen)
            assert all(math.isfinite(s.value) for s in family.samples)


def test_two_thousand_antennas_take_less_than_a_second_of_a_core():
    full = dict.fromkeys(STAGES, 0.999)
    inputs = tuple(InputSight(i, f"A{i // 2}", "xy"[i % 2], 9.5, -12.0, 0.0, 0.0, full, 1e-9) for i in range(4000))
    sight = look(inputs=inputs)

    def taken():
        began = time.process_time()
        exposition(sight)
        return time.process_time() - began

    body = exposition(sight)
    # 0.5 s where nothing else runs; a machine that stands still may count that too.
    assert min(taken() for _ in range(3)) < 2
    assert body.count(b"\nryle_input_") == 4000 * 9


def figures():
    """List what engines of an observation tell of, (figure, kind, unit), from their source."""
    found = set()
    folder = Path(ryle.__file__).parent / "engines"
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            kind = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if kind not in ("counter", "gauge") or file.name == "capture.py":
                continue
            name, unit = node.args[:2]
            units = [unit.value] if isinstance(unit, ast.Constant) else ["packets", "heaps"]  # of F-engines
            found |= {(name.value, kind, u) for u in units}
    return found


def test_the_page_on_metrics_lists_them_all():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "metrics.md").read_text()
    listed = re.findall(r"^\| `(ryle_\w+)` \|", page, re.MULTILINE)
    joined = {"input_rms", "input_clipped", "input_saturated", "input_placed", "input_present", "input_delay"}
    words = {"account", "inputs", "source", "file", "directory", "writes", "advice"}  # no numbers
    known = {named(*figure)[0] for figure in figures() if figure[0] not in joined | words}
    assert len(listed) == len(set(listed))
    assert set(listed) == known | set(TOLD)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed: apt install prometheus")
def test_a_real_prometheus_scrapes_it(tmp_path, served, running_prometheus):
    def there(query):
        """What it has; nothing for a while where it waited for a look in vain."""
        until = time.monotonic() + 60
        while not (found := ask(query)) and time.monotonic() < until:
            time.sleep(0.1)
        return found

    with served(look(alarms=(alarm(),))) as port, running_prometheus(tmp_path, port) as ask:
        told = {one["metric"]["class"]: float(one["value"][1]) for one in there("ryle_account_total")}
        assert told == {kind: ACCOUNT[kind] for kind in CLASSES if ACCOUNT[kind] is not None}
        dead = there("ryle_alarm_active")
        assert [(one["metric"]["subject"], one["value"][1]) for one in dead] == [("A 1 y", "1")]
