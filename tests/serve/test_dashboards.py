"""Dashboards and rules ask for what is there; rules fire on what they are about, and on nothing else.

PromQL is judged by Prometheus: promtool and the server itself, where they are installed.
"""

import json
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import ryle
from ryle.serve.dashboards import write_dashboards
from ryle.serve.metrics import STATES, exposition
from ryle.watch.sight import InputSight
from sights import KINDS, alarm, engine, look

promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt install prometheus"
)
prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed: apt install prometheus"
)


FOLDER = Path(ryle.__file__).parent / "serve"
DASHBOARDS = {path.name: json.loads(path.read_text()) for path in sorted((FOLDER / "grafana").glob("*.json"))}
#: Okabe and Ito's colours, which the colour-blind tell apart, and grey.
COLOURS = {"#0072B2", "#56B4E9", "#009E73", "#F0E442", "#E69F00", "#D55E00", "#CC79A7", "#8E8E8E"}


def everything():
    """A look at engines that have all figures which dashboards draw."""
    sent = {"sent": ("counter", "packets", "…"), "withheld": ("counter", "packets", "…")}
    heaps = {name: ("counter", "heaps", "…") for name in sent}
    writes = {
        "integrations": ("counter", "integrations", "…"),
        "missed": ("counter", "integrations", "…"),
        "listeners": ("gauge", "", "…"),
    }
    return look(
        replace(engine(sent=3, withheld=1), kinds=KINDS | sent),
        replace(engine("f", 1, sent=3, withheld=1), kinds=KINDS | heaps),
        replace(engine("x", sent=3), kinds=KINDS | {"sent": ("counter", "integrations", "…")}),
        replace(engine("catcher", integrations=4, missed=0, listeners=0), kinds=KINDS | writes),
        alarms=(alarm(),),
        inputs=(InputSight(0, "A 1", "x", 1.0, -1.0, 0.0, 0.0, {"ring": 1.0}, 0.0),),
        begin=0.5,
        position=1.0,
        duration=2.0,
    )


def expressions(dashboard):
    """All that a dashboard asks Prometheus for: panels, notes in them, and the values of variables."""
    found = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    found += [note["expr"] for note in dashboard["annotations"]["list"]]
    variables = [v["definition"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    return found + [re.fullmatch(r"label_values\((.*), \w+\)", v)[1] for v in variables]


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def chosen(expr):
    """Put values in place of variables, as Grafana does where all are chosen."""
    return re.sub(r"\$\w+", ".*", expr.replace("$__rate_interval", "1m"))


def rules(directory):
    found = yaml.safe_load((directory / "alerts.yml").read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


@pytest.fixture
def written(tmp_path):
    write_dashboards(tmp_path / "made" / "there")
    return tmp_path / "made" / "there"


def test_what_is_written(written):
    names = {path.name for path in written.iterdir()}
    assert names == {*DASHBOARDS, "alerts.yml", "prometheus.yml"} and len(DASHBOARDS) == 4
    (written / "alerts.yml").write_text("old")
    assert {path.name for path in write_dashboards(written)} == names
    for name in names:
        shipped = FOLDER / ("prometheus" if name.endswith(".yml") else "grafana") / name
        assert (written / name).read_bytes() == shipped.read_bytes()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_one_to_grafana(name):
    made = DASHBOARDS[name]
    assert made["uid"] and len(made["uid"]) <= 40 and made["title"] and made["schemaVersion"] >= 38
    variables = {v["name"]: v for v in made["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    assert len({p["id"] for p in made["panels"]}) == len(made["panels"])
    cells = set()
    for panel in made["panels"]:
        place = panel["gridPos"]
        columns, lines = (range(place[a], place[a] + place[b]) for a, b in (("x", "w"), ("y", "h")))
        mine = {(x, y) for x in columns for y in lines}
        assert columns.stop <= 24 and not mine & cells, f"{panel['title']} lies on another"
        cells |= mine
    for panel in panels(made):
        assert panel["title"] and panel["description"]
        references = [t["refId"] for t in panel["targets"]]
        assert references and len(set(references)) == len(references)
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= {*variables, "__rate_interval"}
        drawn = panel["fieldConfig"]["defaults"]
        assert drawn["unit"]
        steps = drawn["thresholds"]["steps"]
        values = [s["value"] for s in steps]
        assert values[0] is None and values[1:] == sorted(values[1:])
        assert {s["color"] for s in steps} <= COLOURS


def test_uids_differ():
    for key in ("uid", "title"):
        assert len({made[key] for made in DASHBOARDS.values()}) == len(DASHBOARDS)


def test_all_metrics_that_are_asked_for_are_exported(written):
    exported = set(re.findall(r"^(ryle_\w+)", exposition(everything()).decode(), re.MULTILINE))
    asked = [expr for made in DASHBOARDS.values() for expr in expressions(made)]
    asked += [rule["expr"] for rule in rules(written)]
    names = {name for expr in asked for name in re.findall(r"\bryle_\w+", re.sub(r'"[^"]*"', "", expr))}
    assert len(names) > 15
    assert names <= exported, names - exported


def test_alerts_say_what_is_wrong_and_what_to_do(written):
    page = (Path(__file__).parents[2] / "docs" / "howto" / "troubleshooting.md").read_text()
    for rule in rules(written):
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert rule["annotations"]["summary"] and len(rule["annotations"]["description"]) > 15, rule["alert"]
        assert re.fullmatch(r"Ryle[A-Z]\w+", rule["alert"])
        where, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert where.endswith("/howto/troubleshooting.html") and f"\n({anchor})=\n" in page, rule["alert"]


@promtool
def test_promtool_takes_all(written):
    queries = [chosen(expr) for made in DASHBOARDS.values() for expr in expressions(made)]
    made = [{"record": f"query:{n}", "expr": expr} for n, expr in enumerate(queries)]
    (written / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": made}]}))
    for what in (["rules", "alerts.yml"], ["rules", "queries.yml"], ["config", "prometheus.yml"]):
        done = subprocess.run(["promtool", "check", *what], cwd=written, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


HERE = 'instance="a:8080",job="ryle"'
F0 = f'engine="f0",index="0",observation="night",role="f",{HERE}'
CATCHER = f'engine="catcher0",index="0",observation="night",role="catcher",{HERE}'
RUN = f'observation="night",{HERE}'


def state(engine, now, values="1x80"):
    return {f'ryle_engine_state{{state="{s}",{engine}}}': values if s == now else "0x80" for s in STATES}


def account(placed, expected, **others):
    labels = f'unit="packets",{F0}'
    return {
        f'ryle_account_total{{class="placed",{labels}}}': placed,
        f"ryle_account_expected_total{{{labels}}}": expected,
    } | {f'ryle_account_total{{class="{name}",{labels}}}': values for name, values in others.items()}


def judged(kind, values, subject="A 1 x"):
    return {f'ryle_alarm_active{{kind="{kind}",severity="error",subject="{subject}",{RUN}}}': values}


#: What each alert must fire on, every 15 s for 20 minutes, and what it must not; when it is looked at; its labels.
CASES = {
    "RyleHostDown": ({f"up{{{HERE}}}": "0x80"}, {f"up{{{HERE}}}": "1x40 0 0 1x37"}, HERE),
    "RyleEngineDown": (
        {f"ryle_engine_up{{{F0}}}": "1x60 0x19"} | state(F0, "running"),
        {f"ryle_engine_up{{{F0}}}": "1x60 0x19"} | state(F0, "done"),
        F0,
    ),
    "RyleEngineDown failed": (
        {f"ryle_engine_up{{{F0}}}": "1x80"} | state(F0, "failed"),
        {f"ryle_engine_up{{{F0}}}": "1x80"} | state(F0, "draining"),
        f'state="failed",{F0}',
    ),
    "RyleEngineSilent": (
        {f"ryle_engine_status_age_seconds{{{F0}}}": "0x60 15+15x19", f"ryle_engine_up{{{F0}}}": "1x80"}
        | state(F0, "running"),
        {f"ryle_engine_status_age_seconds{{{F0}}}": "0x60 15+15x19", f"ryle_engine_up{{{F0}}}": "1x80"}
        | state(F0, "done"),
        F0,
    ),
    "RyleNotWriting": (
        {f"ryle_integrations_total{{{CATCHER}}}": "0+1x40 40x39"} | state(CATCHER, "running"),
        {f"ryle_integrations_total{{{CATCHER}}}": "0+1x40 40x19 41x19"} | state(CATCHER, "running"),
        CATCHER,
    ),
    "RyleLoss": (
        account("0+998x80", "0+1000x80"),
        account("0+9995x80", "0+10000x80", missing="0+5x80"),
        f'unit="packets",{F0}',
    ),
    "RyleHeavyLoss": (
        account("0+980x80", "0+1000x80"),
        account("0+1000x70 700x9", "0+1000x70 700x9"),  # an engine that began anew, and hears nothing
        f'unit="packets",{F0}',
    ),
    "RyleKernelDrops": (
        account("0+10x80", "0+10x80", kernel_drops="0+1x80"),
        account("0+10x80", "0+10x80", kernel_drops="5x80"),
        f'class="kernel_drops",unit="packets",{F0}',
    ),
    "RyleMalformed": (
        account("0+10x80", "0+10x80", malformed="0+1x80"),
        account("0+10x80", "0+10x80", malformed="5x80", late="0+1x80", foreign="0+9x80"),
        f'class="malformed",unit="packets",{F0}',
    ),
    "RyleTooSlow": (
        {f"ryle_ring_full_packets_total{{{F0}}}": "0+3x80"},
        {f"ryle_ring_full_packets_total{{{F0}}}": "0+3x60 180x19"},
        F0,
    ),
    "RyleTimeJump": ({f"ryle_resyncs_total{{{F0}}}": "0x70 1x9"}, {f"ryle_resyncs_total{{{F0}}}": "3x80"}, F0),
    "RyleClock": (
        {f"ryle_clock_error_seconds{{{F0}}}": "0.001x20 0.3x60", f"ryle_clock_kept{{{F0}}}": "1x80"},
        {f"ryle_clock_error_seconds{{{F0}}}": "0.04x70 0.3x9", f"ryle_clock_kept{{{F0}}}": "1x75 0x4"},
        F0,
    ),
    "RyleLateControl": (
        {f"ryle_late_controls_total{{{F0}}}": "0x70 1x9"},
        {f"ryle_late_controls_total{{{F0}}}": "0x30 1x49"},  # long ago
        F0,
    ),
    "RyleInputDead": (judged("dead", "0x70 1x9"), judged("dead", "1x70 0x9"), None),
    "RyleClipping": (judged("clipping", "0x70 1x9"), judged("clipping", "0x80"), None),
    "RyleInterference": (judged("interference", "0x70 1x9"), judged("interference", "0x78 1x1"), None),
    "RyleNoFringe": (judged("no fringe", "0x70 1x9"), judged("no fringe", "0x78 1x1"), None),
    "RyleDiskFull": (
        {f"ryle_disk_free_bytes{{{RUN}}}": "1e12-1e10x80"},
        {f"ryle_disk_free_bytes{{{RUN}}}": "1e13-1e10x80"},
        RUN,
    ),
    "RyleDiskFull now": (
        {f"ryle_disk_free_bytes{{{RUN}}}": "9e8x80"},
        {f"ryle_disk_free_bytes{{{RUN}}}": "2e9x80"},
        RUN,
    ),
    "RyleWriterBehind": (
        judged("disk", "0x70 1x9", "catcher 0"),
        judged("disk", "0x70 1x9", "/data"),
        f'kind="disk",subject="catcher 0",{RUN}',
    ),
}


def firing(case, written):
    """Give the series that Prometheus makes of the alerts that fire: of heavy loss both do."""
    name = case.partition(" ")[0]
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in rules(written)}
    kinds = {"RyleInputDead": "dead", "RyleClipping": "clipping", "RyleInterference": "interference"}
    labels = CASES[case][2] or f'kind="{kinds.get(name, "no fringe")}",subject="A 1 x",{RUN}'
    return [
        {"labels": f'ALERTS{{alertname="{n}",alertstate="firing",severity="{severities[n]}",{labels}}}', "value": 1}
        for n in (name, *(["RyleLoss"] if name == "RyleHeavyLoss" else []))
    ]


def test_every_alert_has_a_case(written):
    assert {case.partition(" ")[0] for case in CASES} == {rule["alert"] for rule in rules(written)}


@promtool
def test_alerts_fire_on_what_they_are_about_and_on_nothing_else(written):
    tests = []
    for case, (wrong, right, _) in CASES.items():
        for which, series, expected in (("fires", wrong, firing(case, written)), ("is silent", right, [])):
            tests.append(
                {
                    "name": f"{case} {which}",
                    "interval": "15s",
                    "input_series": [{"series": s, "values": v} for s, v in series.items()],
                    "promql_expr_test": [
                        {"expr": 'ALERTS{alertstate="firing"}', "eval_time": "19m45s", "exp_samples": expected}
                    ],
                }
            )
    file = {"rule_files": ["alerts.yml"], "evaluation_interval": "15s", "tests": tests}
    (written / "test.yml").write_text(yaml.safe_dump(file))
    done = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=written, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@prometheus
def test_every_panel_shows_something(tmp_path, served, running_prometheus):
    queries = [(name, expr) for name, made in DASHBOARDS.items() for expr in expressions(made)]
    with served(everything()) as port, running_prometheus(tmp_path, port) as ask:
        # After some looks each shows something; for a while nothing does, where Prometheus waited for a look in vain.
        until = time.monotonic() + 120
        while (empty := [(name, expr) for name, expr in queries if not ask(chosen(expr))]) and time.monotonic() < until:
            queries = empty
            time.sleep(0.1)
    # Without growth nothing is known of a share of it, but the series is there.
    assert not empty
