"""Pages are followed to the letter: their commands run, in their order, where a reader would run them.

A comment before a block of commands says what a reader knows without being told:

``<!-- followed: before, COMMAND -->`` what stands there already, such as an observation file of one's own;
``<!-- followed: meanwhile, COMMAND -->`` what runs on this machine while the rest of the page is followed;
``<!-- followed: terminals -->`` each line in a terminal of its own; when the last has ended, the others get Ctrl-C;
``<!-- followed: for 3 s -->`` each line until it ends, or Ctrl-C; of terminals the last;
``<!-- followed: not run, REASON -->``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/tutorial/first-observation.md",
    *(f"docs/howto/{name}.md" for name in ("capture", "files", "metrics", "own-simulation", "recordings")),
    *(f"docs/howto/{name}.md" for name in ("observing", "troubleshooting")),
    *(f"docs/howto/{name}.md" for name in ("send", "status", "wire-formats", "your-array")),
)
#: What ends well: done, or Ctrl-C.
_DONE, _STOPPED = {0}, {0, 130, -signal.SIGINT}
_FENCE = re.compile(r"((?:<!-- followed: .*? -->\n)*)```sh\n(.*?)```", re.DOTALL)
_MARK = re.compile(r"<!-- followed: (\w+(?: \w+)*?)(?:, (.*?))? -->")
#: The first of these words that an address has needs a host that has it.
_ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2", "10.0.1.3")


@dataclass(frozen=True)
class Block:
    commands: list[str]
    marks: list[tuple[str, str]]

    def marked(self, word: str) -> list[str]:
        return [text for name, text in self.marks if name == word]

    @property
    def patience(self) -> float | None:
        found = [re.fullmatch(r"for (\d+) s", name) for name, _ in self.marks]
        return next((float(m[1]) for m in found if m), None)


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    return [
        Block([c for c in body.splitlines() if c.strip()], [m.groups(default="") for m in _MARK.finditer(marks)])
        for marks, body in _FENCE.findall(text)
    ]


def test_pages_say_what_is_not_followed():
    """Not much is, each with its reason; and marks are ones that are known."""
    every = [block for page in PAGES for block in blocks(page)]
    skipped = [block for block in every if block.marked("not run")]
    assert len(PAGES) == 13 and all(blocks(page) for page in PAGES)
    assert len(skipped) <= len(every) // 3 and all(len(block.marked("not run")[0]) > 10 for block in skipped)
    for block in every:
        for name, _ in block.marks:
            assert name in ("before", "meanwhile", "terminals", "not run") or re.fullmatch(r"for \d+ s", name)


@pytest.fixture(scope="module")
def host():
    """A namespace with the pages' addresses on an interface eth1; nothing but the loopback where that cannot be had."""
    name = f"ryle-pages-{os.getpid()}"
    if (
        os.geteuid()
        or shutil.which("ip") is None
        or subprocess.run(["ip", "netns", "add", name], check=False).returncode
    ):
        yield []
        return
    try:
        lines = [
            "link set lo up",
            "link add eth1 mtu 9000 type veth peer name far mtu 9000",
            "link set eth1 up",
            "link set far up",
        ]
        lines += [f"addr add {address}/16 dev eth1" for address in _ADDRESSES] + ["route add 224.0.0.0/4 dev eth1"]
        for line in lines:
            subprocess.run(["ip", "-n", name, *line.split()], check=True)
        yield ["ip", "netns", "exec", name]
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What `make demo` left, for all pages that begin with it."""
    return tmp_path_factory.mktemp("demo") / "demo-output"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES)
def test_the_page_can_be_followed(page, tmp_path, host, made):
    text = (ROOT / page).read_text()
    if not host and any(address in text for address in _ADDRESSES):
        pytest.skip("needs a network namespace with the page's addresses: root, and ip")
    for there in ROOT.iterdir():  # a clone, but for what is made in it
        if not there.name.startswith((".git", "demo-output")) and there.name not in ("build", "tests"):
            (tmp_path / there.name).symlink_to(there)
    with contextlib.ExitStack() as stack:
        # A host's own pages: engines of other tests are not to be seen. Sockets' paths are short, so not in tmp_path.
        pages = stack.enter_context(tempfile.TemporaryDirectory(prefix="ryle-pages-"))
        follower = Follower(tmp_path, host, made, pages)
        for block in blocks(page):
            if not block.marked("not run"):
                follower.follow(block, stack)
    assert follower.followed


class Follower:
    """Runs commands as a reader would, in a directory."""

    def __init__(self, place: Path, host: list[str], made: Path, pages: str) -> None:
        self.place, self.host, self.made, self.followed = place, host, made, 0
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "100",
            "RYLE_STATUS_DIR": pages,
        }
        self.log = itertools.count()

    def follow(self, block: Block, stack: contextlib.ExitStack) -> None:
        for command in block.marked("before"):
            if not self.known(command):
                self.end(self.start(command), 600, _DONE)
        for command in block.marked("meanwhile"):
            running = self.start(command)
            stack.callback(self.stop, running)
            self.wait_for_a_page()
        if block.marked("terminals"):
            *others, last = [self.spoken(self.start(command)) for command in block.commands]
            with contextlib.suppress(subprocess.TimeoutExpired):
                last[0].wait(block.patience or 120)
            self.stop(last) if block.patience else self.end(last, 1, _DONE)
            for other in others:
                time.sleep(1.0)
                self.stop(other)
            return
        for command in block.commands:
            if self.known(command):
                continue
            running = self.start(command)
            if block.patience is None:
                self.end(running, 600, _DONE)
            else:
                self.spoken(running)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running[0].wait(block.patience)
                self.stop(running)

    def known(self, command: str) -> bool:
        """Whether a command is what the test has done: cloned, or made the demo for another page."""
        if command.startswith("make demo") and self.made.exists():
            shutil.copytree(self.made, self.place / "demo-output")
            self.followed += 1
            return True
        return command.startswith("git clone")

    def spoken(self, running: tuple[subprocess.Popen, str, Path]) -> tuple[subprocess.Popen, str, Path]:
        """Wait until a command has said something, as a reader would, or has ended."""
        end = time.monotonic() + 60
        while running[0].poll() is None and running[2].stat().st_size == 0 and time.monotonic() < end:
            time.sleep(0.1)
        return running

    def start(self, command: str) -> tuple[subprocess.Popen, str, Path]:
        self.followed += 1
        log = self.place / f"said-{next(self.log)}.log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*self.host, "bash", "-c", f"exec {command}" if re.match(r"ryle ", command) else command],
                cwd=self.place, env=self.environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        return process, command, log

    def end(self, running: tuple[subprocess.Popen, str, Path], patience: float, well: set[int]) -> None:
        process, command, log = running
        try:
            process.wait(patience)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        said = log.read_text(errors="replace")
        assert process.returncode in well, f"{command}\nended with {process.returncode}:\n{said[-3000:]}"
        assert "Traceback" not in said, f"{command}\n{said[-3000:]}"
        if command.startswith("make demo"):
            shutil.copytree(self.place / "demo-output", self.made, dirs_exist_ok=True)

    def stop(self, running: tuple[subprocess.Popen, str, Path]) -> None:
        if running[0].poll() is None:
            os.killpg(running[0].pid, signal.SIGINT)
        self.end(running, 60, _STOPPED)

    def wait_for_a_page(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            told = subprocess.run(
                ["ryle", "status", "--page", "x0"],
                cwd=self.place,
                env=self.environment,
                capture_output=True,
                check=False,
            )
            if told.returncode == 0:
                return
            time.sleep(0.3)
        raise AssertionError("nothing runs, as ryle status says")
