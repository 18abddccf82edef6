"""Random arguments and damaged files: a command ends with a status and words, never with a traceback or without end."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import signal
from pathlib import Path

import pytest

import bad_files
import fresh
from ryle.cli import COMMANDS, load, main
from ryle.engines import capture
from ryle.wire.description import FORMATS

NUMBERS = (
    "0",
    "-1",
    "1",
    "7",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "1e999",
    "99999999999999999999",
    "0x10",
    "1.5",
    "-0",
    "1_0",
)
TEXTS = (
    "",
    " ",
    "x",
    "é",
    "\udcff",
    "a=b",
    "=",
    ",",
    "1,2",
    "1,,2",
    "a:b",
    "1:2",
    "127.0.0.1:9",
    "[::1]:9",
    "\n",
    "--",
)
#: Given only what makes them end before they begin: they run for as long as they are told to.
ENDLESS = (
    *("run", "simulate", "capture", "send", "demo", "bench", "serve"),
    *("fpga simulate", "fpga demo", "fpga generator start"),
)
WRONG = ("nowhere", "empty", "directory", "text.txt", "random.bin", "key.toml", "utf16.toml", "cut.uvh5", "loop")


def tree(name, command):
    """All commands below one, by what is typed for them."""
    below = getattr(command, "commands", None)
    if not below:
        return {name: command}
    return {k: v for word, its in below.items() for k, v in tree(f"{name} {word}", its).items()} | {name: command}


def arguments(rng, words, command, files):
    """A command line of which most is allowed and some is not."""
    line, endless = words.split(), words in ENDLESS or words.startswith(("engine", "fpga"))
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            if rng.random() < 0.9:
                line.append(rng.choice(WRONG if endless else files))
        elif rng.random() < 0.15 and parameter.name not in ("help", "watch"):
            line.append(rng.choice(parameter.opts))
            if not getattr(parameter, "is_flag", False):
                line.append(rng.choice((*NUMBERS, *TEXTS, *rng.sample(files, 4))))
    if endless:  # whatever else was chosen
        line.append("--nonsense" if rng.random() < 0.2 or words not in ("run", "simulate") else rng.choice(WRONG))
    if rng.random() < 0.05:
        line.insert(rng.randrange(len(line) + 1), rng.choice((*NUMBERS, *TEXTS, "--nonsense", "-h")))
    return line


def damage(rng, raw):
    """Change, take out, double or cut some bytes."""
    raw = bytearray(raw)
    for _ in range(rng.randint(1, 8)):
        at, size = rng.randrange(len(raw) + 1), rng.choice((1, 1, 2, 4, 8, 30))
        match rng.randrange(5):
            case 0:
                raw[at : at + size] = rng.randbytes(size)
            case 1:
                del raw[at : at + size]
            case 2:
                raw[at:at] = raw[at : at + size]
            case 3:
                raw[at : at + size] = rng.choice((b"\xff", b"\0", b"9", b'"', b"-", b"nan", b"[", b"\x80")) * size
            case 4 if rng.random() < 0.1:
                del raw[at:]
    return bytes(raw)


def a_line(rng, files, sources, commands):
    """One try: random arguments, or a damaged file where a whole one is wanted."""
    which = rng.random()
    if which < 0.45:
        words = rng.choice(list(commands))
        return arguments(rng, words, commands[words], files)
    kind, lines = rng.choices(
        [
            ("toml", [["check", "damaged.toml"], ["check", "--json", "damaged.toml"]]),
            ("format", [["wire", "show", "damaged.format"], ["wire", "show", "--json", "damaged.format"]]),
            ("pcap", [["wire", "check", "counter_8192", "--pcap", "damaged.pcap"]]),
            ("uvh5", [["recover", "damaged.uvh5"]]),
            ("uvh5", [["export", "damaged.uvh5", "--to", "uvfits", "--overwrite"]]),
            ("journal", [["recover", "damaged.uvh5"]]),
        ],
        (10, 8, 8, 3, 0.2, 3),  # exports take long
    )[0]
    raw = rng.choice(sources[kind])
    if kind == "journal":
        Path("damaged.uvh5").write_bytes(sources["uvh5"][0])
        Path("damaged.uvh5.journal").write_bytes(damage(rng, raw))
    else:
        Path("damaged.uvh5.journal").unlink(missing_ok=True)
        Path(f"damaged.{kind}").write_bytes(damage(rng, raw))
    return rng.choice(lines)


def fuzz(folder, tries, seed):
    """Try; gives what went wrong."""
    rng = random.Random(seed)
    drawn = (
        "journal",
        "number-times",
        "negative-times",
        "good",
        "small",
        "bom",
    )  # whole enough to be worked on for long
    files = sorted(p.name for p in folder.iterdir() if not p.name.startswith(drawn))
    commands = {k: v for name in COMMANDS for k, v in tree(name, load(name)).items()}
    sources = {
        "toml": [(folder / name).read_bytes() for name in ("small.toml", "vdif2.toml")],
        "format": [p.read_bytes() for p in sorted(FORMATS.glob("*.toml"))],
        "pcap": [(folder / name).read_bytes() for name in ("good.pcap", "offset.pcapng")],
        "uvh5": [(folder / "good.uvh5").read_bytes()],
        "journal": [(folder / f"journal-{name}.uvh5.journal").read_bytes() for name in ("count", "length", "offset")],
    }
    before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(SystemError("it does not end")))
    wrong = []
    for number in range(tries):
        line = a_line(rng, files, sources, commands)
        out, err = io.StringIO(), io.StringIO()
        signal.alarm(60)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main(line)
        except SystemExit as end:
            status = end.code
        except BaseException as error:
            status = repr(error)
        signal.alarm(0)
        said = err.getvalue()
        if (
            status not in ((0, 1, 2, 3) if line[:1] == ["monitor"] else (0, 1, 2))
            or "Traceback" in said
            or "fault of Ryle" in said
        ):
            kept = folder / f"wrong{number}"
            for name in ("toml", "format", "pcap", "uvh5", "uvh5.journal"):
                if f"damaged.{name.removesuffix('.journal')}" in line and Path(f"damaged.{name}").exists():
                    shutil.copy(f"damaged.{name}", f"{kept}.{name}")
            wrong.append(f"try {number}: {line} gives {status}: {said[-600:]}")
    signal.signal(signal.SIGALRM, before)
    return wrong


@pytest.mark.parametrize("tries", [300, pytest.param(20_000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_no_traceback(tmp_path, monkeypatch, tries):
    """The seed is printed and gives the same tries again."""
    monkeypatch.chdir(bad_files.make(tmp_path))
    monkeypatch.setenv("RYLE_STATUS_DIR", str(tmp_path / "directory"))
    monkeypatch.delenv("RYLE_DEBUG", raising=False)
    monkeypatch.setattr(capture, "_FIRST", 0.2)
    seed = fresh.seed()
    print(f"seed {seed}")
    wrong = fuzz(tmp_path, tries, seed)
    assert not wrong, f"{len(wrong)} of {tries} with seed {seed}\n" + "\n".join(wrong[:20])
