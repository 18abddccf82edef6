"""What a run hears of engines that Ray keeps; no cluster is needed for it."""

import json
from types import SimpleNamespace

from ryle.deploy.ray_site import Kept


def test_an_engine_that_waits_for_packets_listens_however_often_it_says_so():
    """One that has no supervisor says that it is ready when it listens; one that a supervisor starts says so before."""
    heard = []
    kept = Kept(None, "x0", None, lambda line: heard.append(json.loads(line)), print)
    said = ["starting", "ready", "ready", "ready", "running", "draining", "starting", "ready", "running"]
    lines = [json.dumps({"state": state, "received": 0}) for state in said]
    kept.take(SimpleNamespace(keeper="k", until=9, host="a", log="", lines=lines, ended=None))
    wanted = ["ready", "listening", "listening", "listening", "running", "draining", "starting", "listening", "running"]
    assert [line["state"] for line in heard] == ["ready", *wanted]  # and from the moment that it is kept
