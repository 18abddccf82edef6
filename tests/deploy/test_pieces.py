"""Pieces of recordings without a cluster: cut, made, taken up, joined."""

import http.server
import io
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

import fresh
import recorded
from ryle.config import changed, parse
from ryle.deploy import offline
from ryle.deploy.offline import Needs, correlate_piece
from ryle.deploy.pieces import Pieces, cut
from ryle.engines.extent import extent
from ryle.engines.gpus import gpu_numbers
from ryle.engines.offline import correlate
from ryle.store.fetch import Recording
from same_file import assert_same


def quiet():
    return Console(file=io.StringIO(), width=200)


def test_integrations_are_shared_out(rng):
    for _ in range(200):
        first, many, pieces = (int(n) for n in rng.integers([0, 1, 1], [1000, 300, 400]))
        cuts = cut(range(first, first + many), pieces)
        assert [n for c in cuts for n in c] == list(range(first, first + many))
        assert len(cuts) == min(pieces, many) and max(map(len, cuts)) - min(map(len, cuts)) <= 1


@pytest.fixture
def some(tmp_path):
    file = tmp_path / "a.vdif"
    file.write_bytes(b"recording")
    cuts = cut(range(3, 13), 4)
    return Pieces.of(recorded.observation(), [Recording.of(str(file))], cuts), tmp_path / "x.pieces"


def test_pieces_have_all(some):
    pieces, _ = some
    made = [pieces.integrations(n) for n in range(4)]
    assert made[0].start == 0 and made[-1].stop >= 1 << 40
    assert all(a.stop == b.start for a, b in pairwise(made))
    assert sum(map(pieces.length, range(4))) == 10


def test_finished_pieces_are_taken_up(some):
    pieces, directory = some
    assert pieces.begin(directory) == (pieces, 0)
    made = []
    pieces.make(directory, 2, lambda to: (to / "x").write_text("two"))
    with pytest.raises(ValueError, match="no luck"):
        pieces.make(directory, 1, lambda to: exec("raise ValueError('no luck')"))
    assert [p.name for p in directory.iterdir() if p.is_dir()] == ["00002"]
    (directory / ".00001.host.1").mkdir()  # of somebody who was killed
    otherwise_cut = Pieces(**{**vars(pieces), "cuts": [(3, 13)]})
    assert otherwise_cut.begin(directory) == (pieces, 0)  # the cuts of what is there
    assert pieces.finished(directory) == [2] and not list(directory.glob(".*"))
    pieces.make(directory, 2, made.append)
    assert not made and (directory / "00002" / "x").read_text() == "two"


@pytest.mark.parametrize("what", ["text", "ryle", "recordings", "damaged"])
def test_pieces_of_something_else_are_not(some, what):
    pieces, directory = some
    pieces.begin(directory)
    pieces.make(directory, 2, lambda to: None)
    other = pieces
    if what == "damaged":
        (directory / "pieces.json").write_text("{")
    elif what == "recordings":
        path = Path(pieces.recordings[0].where)
        path.write_bytes(b"another  ")
        other = Pieces(**{**vars(pieces), "recordings": [Recording.of(str(path))]})
    else:
        other = Pieces(**{**vars(pieces), what: "other"})
    assert other.begin(directory) == (other, 0 if what == "damaged" else 1)
    assert not other.finished(directory) and Pieces.read(directory) == other


def test_a_host_without_the_directory_says_so(some):
    _, directory = some
    with pytest.raises(FileNotFoundError, match=rf"{directory} cannot be read on .*--output"):
        correlate_piece(recorded.observation(), str(directory), 0)


def test_a_host_with_another_ryle_or_recording_says_so(some, tmp_path):
    pieces, directory = some
    Pieces(**{**vars(pieces), "ryle": "0.0.0, commit 0"}).begin(directory)
    with pytest.raises(RuntimeError, match=r"shared out by 0\.0\.0, commit 0: install the same"):
        correlate_piece(recorded.observation(), str(directory), 0)
    pieces.begin(directory)
    (tmp_path / "a.vdif").write_bytes(b"short")
    with pytest.raises(RuntimeError, match=r"5 bytes on .*, and had 9"):
        correlate_piece(recorded.observation(), str(directory), 0)
    (tmp_path / "a.vdif").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.vdif cannot be read on .*same path on all hosts"):
        correlate_piece(recorded.observation(), str(directory), 0)


@pytest.mark.parametrize("form", ["chunks", "pcap"])
def test_pieces_joined_are_what_one_machine_writes(form, tmp_path, rng):
    if form == "pcap":
        o = recorded.observation(duration=0.6, more=recorded.SIMULATE.format(seed=fresh.seed()))
        recordings = recorded.capture(tmp_path, o)
    else:
        o = recorded.observation()
        recordings = recorded.chunks(tmp_path, rng, o)
    (whole,) = correlate(o, recordings, tmp_path / "whole", quiet())
    integrations, samples = extent(o, recordings, quiet())
    assert len(integrations) - 3 <= whole.integrations + 1 and samples > 0
    found = [Recording.of(str(each)) for each in recordings]
    directory = tmp_path / "x.pieces"
    pieces, _ = Pieces.of(o, found, cut(integrations, 3)).begin(directory)
    for number in (2, 0, 1):
        correlate_piece(o, str(directory), number)
    joined = pieces.join(directory, {"pieces.uvh5": tmp_path / "joined.uvh5"})
    assert joined == {tmp_path / "joined.uvh5": whole.integrations}
    assert_same(tmp_path / "joined.uvh5", whole.file)
    assert not directory.exists()


def test_pieces_are_as_many_as_are_worth_it():
    o = recorded.observation()
    assert offline._count(o, range(10**6), 1 << 40, 64) == 64
    assert offline._count(o, range(10**6), 3 << 27, 64) == 3
    assert offline._count(o, range(1), 1 << 40, 64) == 1


def test_cores_and_gpus_are_those_of_the_arithmetic(monkeypatch):
    o = changed(recorded.observation(), fengine={"threads": 2}, xengine={"threads": 3})
    assert Needs.of(o) == Needs(6, 0)
    cuda = changed(
        o, fengine={"backend": "cuda", "gpus": [3], "channels": 64}, xengine={"backend": "cuda", "gpus": [3]}
    )
    assert Needs.of(cuda) == Needs(1, 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    own = offline._on_own_gpus(cuda)
    assert own.gpu_of("f", 0) == own.gpu_of("x", 0) == [] and own.text == cuda.text
    text = recorded.observation(more='[fx]\nbackend = "cpu"').text
    both = parse(text.replace('"cpu"', '"cuda"\ngpus = [2, 3]').replace("channels = 32", "channels = 64"))
    assert Needs.of(both) == Needs(1, 2)
    assert gpu_numbers(both, "fx") == [2, 3] and gpu_numbers(offline._on_own_gpus(both), "fx") == [0, 1]
    assert offline._on_own_gpus(o) is o


class Server(http.server.SimpleHTTPRequestHandler):
    fetched: list[str] = []  # noqa: RUF012

    def do_GET(self):
        self.fetched.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


def test_a_recording_behind_a_url_is_fetched_once(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("RYLE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "there").mkdir()
    content = rng.bytes(100_000)
    (tmp_path / "there" / "a.vdif").write_bytes(content)
    handler = partial(Server, directory=str(tmp_path / "there"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/a.vdif"
        recording = Recording.of(url)
        assert recording.size == len(content)
        Server.fetched.clear()
        threads = [threading.Thread(target=recording.local) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert recording.local().read_bytes() == content and Server.fetched == ["/a.vdif"]
        with pytest.raises(FileNotFoundError, match=r"b\.vdif cannot be read on"):
            Recording.of(url.replace("a.vdif", "b.vdif"))
        server.shutdown()
    with pytest.raises(RuntimeError, match="nosuch"):
        Recording.of("nosuch://a/b")
