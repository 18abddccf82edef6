"""What an earlier run left is never replaced unasked."""

import signal

import pytest

WORK = "somebody's work"


@pytest.mark.long
@pytest.mark.parametrize("how", ["--in-process", "--simulate"])
def test_run_again(observation, ryle, tmp_path, how):
    path, _ = observation(duration=0.2)
    (tmp_path / "small.uvh5").write_text(WORK)
    again = ryle("run", path, how, "--output", tmp_path)
    assert again.end() == 0, again.said
    assert (tmp_path / "small.uvh5").read_text() == WORK
    assert (tmp_path / "small-2.uvh5").stat().st_size > 1000
    assert "small.uvh5 is of an earlier run and stays" in again.said and "small-2.uvh5" in again.said
    assert "--overwrite" in again.said


@pytest.mark.long
def test_overwriting(observation, ryle, tmp_path):
    path, _ = observation(duration=0.2)
    (tmp_path / "small.uvh5").write_text(WORK)
    process = ryle("run", path, "--in-process", "--overwrite", "--output", tmp_path)
    assert process.end() == 0 and "earlier run" not in process.said
    assert (tmp_path / "small.uvh5").stat().st_size > 1000 and not (tmp_path / "small-2.uvh5").exists()


def test_engine_by_hand_twice(observation, ryle, tmp_path):
    path, _ = observation(duration=0.2)
    (tmp_path / "small.uvh5").write_text(WORK)
    catcher = ryle("engine", "catcher", path, "--output", tmp_path)
    catcher.wait_ready()
    catcher.signal(signal.SIGTERM)
    assert catcher.end() == 0
    assert (tmp_path / "small.uvh5").read_text() == WORK
    assert (tmp_path / "small-2.uvh5").exists() and "small-2.uvh5" in catcher.said


@pytest.mark.long
def test_correlate_again(observation, ryle, tmp_path):
    """What an export left is an earlier run's too."""
    path, _ = observation(duration=0.2)
    capture, out = tmp_path / "packets.pcap", tmp_path / "out"
    (out / "small.ms").mkdir(parents=True)
    assert ryle("simulate", path, "--pcap", capture).end() == 0
    assert ryle("correlate", path, "--input", capture, "--output", out).end() == 0
    assert not (out / "small.uvh5").exists() and (out / "small-2.uvh5").exists()


@pytest.mark.long
def test_capture_twice(ryle, tmp_path, ports):
    """A capture's files are numbered from 0 each time: the second one gets another stem."""
    port = ports(1)
    for to in ("pcap", "chunks"):
        said = []
        for _ in range(2):
            arguments = ("counter_8192", "--at", f"127.0.0.1:{port}", "--to", to, "--files", tmp_path / to)
            sender = ryle("send", "counter_8192", "--to", f"127.0.0.1:{port}", "--pps", "500", "--seconds", "100")
            process = ryle("capture", *arguments, "--seconds", "0.5", "--warm-up", "0")
            said.append((process.end(60), process.said))
            sender.signal(signal.SIGTERM)
            sender.end()
        assert [code for code, _ in said] == [0, 0], said
        names = sorted(p.name for p in tmp_path.glob(f"{to}*"))
        assert [n.rsplit("-", 1)[0] for n in names] == [to, f"{to}-2"], names
        assert f"{to}-2" in said[1][1] and "--overwrite" in said[1][1]
