"""Bad arguments and bad files, each answered in a line or two: what is wrong, what to do, and the right exit status."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

import bad_files
import fresh
import ryle as package
from ports import free_ports
from ryle.cli import main
from ryle.cli.errors import guarded, told
from ryle.engines import capture
from ryle.problems import ConfigError, Problem

PACKAGE = os.path.dirname(package.__file__)
AT = "--at 127.0.0.1:PORT --seconds 0.2 --warm-up 0"
#: Command line, exit status, and what must be said: the file or key, and what to do.
CASES = [
    # what there is to ask
    ("fly", 2, ["fly", "ryle --help"]),
    ("--fly", 2, ["--fly", "ryle --help"]),
    ("check", 2, ["Missing argument", "ryle check --help"]),
    ("check small.toml --fast", 2, ["--fast", "ryle check --help"]),
    ("check small.toml nowhere.vdif", 2, ["nowhere.vdif"]),
    ("wire fly", 2, ["fly", "ryle wire --help"]),
    ("engine fly", 2, ["fly", "ryle engine --help"]),
    ("export good.uvh5", 2, ["--to", "ryle export --help"]),
    ("export good.uvh5 --to fits", 2, ["--to", "uvfits"]),
    ("image good.uvh5 --stokes W", 2, ["--stokes", "'V'"]),
    ("bench flying", 2, ["flying", "cpu"]),
    ("example nosuch", 2, ["nosuch", "demo"]),
    ("example ../demo", 2, ["../demo", "demo"]),
    # observation files
    ("check nowhere.toml", 2, ["nowhere.toml", "no such file"]),
    ("check small.tomll", 2, ["small.tomll", "did you mean small.toml?"]),
    ("check nowhere/a.toml", 2, ["nowhere/a.toml", "copy"]),
    ("check directory", 2, ["directory", "name a file"]),
    ("check loop", 2, ["loop", "name the file itself"]),
    ("check dangling", 2, ["dangling", "no such file"]),
    ("check random.bin", 2, ["random.bin", "UTF-8"]),
    ("check good.uvh5", 2, ["good.uvh5", "HDF5", "TOML"]),
    ("check good.pcap", 2, ["good.pcap", "UTF-8"]),
    ("check /dev/zero", 2, ["/dev/zero", "16 MiB"]),
    ("check utf16.toml", 2, ["utf16.toml", "save it as UTF-8"]),
    ("check latin.toml", 2, ["latin.toml", "line 4", "save the file as UTF-8"]),
    ("check cut.toml", 2, ["cut.toml", "not valid TOML"]),
    ("check text.txt", 2, ["text.txt", "not valid TOML", "line 1"]),
    ("check twice.toml", 2, ["twice.toml", "taps = 9"]),
    ("check nan.toml", 2, ["nan.toml", "band.sample_rate = nan", '"1.712 GHz"']),
    ("check inf.toml", 2, ["inf.toml", "band.sample_rate = inf", '"1.712 GHz"']),
    ("check negative.toml", 2, ["negative.toml", "band.sample_rate", "more than 0"]),
    ("check unit.toml", 2, ["unit.toml", "band.sample_rate", 'did you mean "8 MHz"?']),
    ("check key.toml", 2, ["key.toml", "fengine.tops", "did you mean taps?"]),
    ("check type.toml", 2, ["type.toml", "fengine.taps", "write 8 without quotes"]),
    ("check zero.toml", 2, ["zero.toml", "fengine.taps = 0", "at least 1"]),
    ("check huge.toml", 2, ["huge.toml", "fengine.taps", "at most 32"]),
    ("check date.toml", 2, ["date.toml", "observation.sync_time", "no such date"]),
    ("check antennas-nowhere.toml", 2, ["array.antenna_file", "nowhere.txt", "no such file"]),
    ("check antennas-random.toml", 2, ["array.antenna_file", "save the file as UTF-8"]),
    ("check antennas-empty.toml", 2, ["array.antenna_file", "name east north up"]),
    ("check antennas-directory.toml", 2, ["array.antenna_file", "name a file"]),
    ("check antennas-text.toml", 2, ["array.antenna_file", "line 1 of text.txt"]),
    # the same files where something is to be run
    *[
        (f"{command} {file}", 2, [file, said])
        for command in ("run", "run --in-process", "simulate", "engine f", "engine x", "engine catcher")
        for file, said in (("nowhere.toml", "no such file"), ("key.toml", "did you mean taps?"))
    ],
    ("correlate nowhere.toml -i good.vdif", 2, ["nowhere.toml", "no such file"]),
    ("run small.toml --in-process --no-simulate", 2, ["--in-process", "leave out"]),
    ("run no-simulate.toml --in-process", 2, ["no-simulate.toml", "simulate", "[simulate]"]),
    ("run small.toml -o text.txt", 1, ["text.txt", "file exists", "choose another"]),
    ("run small.toml --in-process -o text.txt/below", 1, ["text.txt", "is a file, not a directory"]),
    ("engine f small.toml --index -1", 2, ["--index", "ryle engine f --help"]),
    ("engine f small.toml --index 99", 2, ["F-engine 99", "counted from 0"]),
    ("engine x small.toml --index 99", 2, ["X-engine 99", "counted from 0"]),
    # simulated packets
    ("simulate no-simulate.toml", 2, ["simulate", "[simulate]"]),
    ("simulate small.toml --pcap directory", 1, ["directory", "name a file"]),
    ("simulate small.toml --pcap nowhere/x.pcap", 1, ["nowhere/x.pcap", "make the directory"]),
    ("simulate small.toml --pcap /dev/full", 1, ["/dev/full", "no space left", "make room"]),
    ("simulate small.toml --speed nan", 2, ["simulate.speed", "such as 0.1"]),
    ("simulate small.toml --speed -1", 2, ["simulate.speed", "above 0"]),
    ("simulate small.toml --speed inf", 2, ["simulate.speed", "max"]),
    ("simulate small.toml --speed fast", 2, ["--speed", "max"]),
    ("simulate small.toml --duration 5", 2, ["--duration", '"5 s"']),
    ("simulate small.toml --duration nan", 2, ["--duration", '"0.5 s"']),
    ("simulate small.toml --duration -5s", 2, ["observation.duration", "more than 0"]),
    ("simulate small.toml --loss 2", 2, ["--loss", "less than or equal to 1"]),
    ("simulate small.toml --loss nan", 2, ["--loss", "ryle simulate --help"]),
    ("simulate small.toml --fault-seed -1", 2, ["--fault-seed", "ryle simulate --help"]),
    # recordings
    ("correlate small.toml", 2, ["--input", "ryle correlate --help"]),
    ("correlate small.toml -i nowhere.pcap", 2, ["nowhere.pcap", "does not exist"]),
    ("correlate small.toml -i directory", 1, ["directory", "name a file"]),
    ("correlate small.toml -i empty", 2, ["empty", "[vdif]"]),
    ("correlate small.toml -i good.vdif", 2, ["good.vdif", "[vdif]"]),
    ("correlate small.toml -i good.uvh5", 2, ["good.uvh5", "no packet capture"]),
    ("correlate small.toml -i short.pcap", 2, ["short.pcap", "at least 24"]),
    ("correlate small.toml -i good.pcap", 2, ["good.pcap", "ryle wire check"]),
    ("correlate small.toml -i head.pcap", 2, ["head.pcap", "ryle wire check"]),
    ("correlate small.toml -i offset.pcapng", 2, ["offset.pcapng", "ryle wire check"]),
    ("correlate small.toml -i farthest.pcapng", 2, ["farthest.pcapng", "ryle wire check"]),
    ("correlate small.toml -i earliest.pcapng", 2, ["earliest.pcapng", "ryle wire check"]),
    ("correlate small.toml -i good.pcap good.pcap", 2, ["--input", "mergecap"]),
    ("correlate vdif2.toml -i good.vdif", 2, ["--input", "file = 0 to 1"]),
    ("correlate vdif2.toml -i good.vdif good.vdif", 2, ["good.vdif", "threads"]),
    ("correlate vdif2.toml -i empty empty", 2, ["empty"]),
    ("correlate vdif2.toml -i text.txt text.txt", 2, ["text.txt"]),
    ("correlate vdif2.toml -i random.bin random.bin", 2, ["random.bin"]),
    ("correlate vdif2.toml -i cut.vdif cut.vdif", 2, ["cut.vdif"]),
    # packet formats and captures of packets
    ("wire show nosuch", 2, ["nosuch", "shipped are"]),
    ("wire show counter_819", 2, ["counter_819", "did you mean counter_8192?"]),
    ("wire show directory", 2, ["directory", "name a file"]),
    ("wire show good.uvh5", 2, ["good.uvh5", "HDF5"]),
    ("wire show utf16.toml", 2, ["utf16.toml", "UTF-8"]),
    ("wire show counter_8192:bits=3", 2, ["bits", "no such parameter"]),
    ("wire show meerkat_digitizer:bits", 2, ["meerkat_digitizer:bits", "did you mean"]),
    ("wire show meerkat_digitizer:bits=99", 2, ["bits", "99"]),
    ("wire show vdif:", 2, ["vdif"]),
    ("wire check counter_8192", 2, ["--pcap", "ryle wire check --help"]),
    ("wire check counter_8192 --pcap nowhere", 2, ["nowhere", "does not exist"]),
    ("wire check counter_8192 --pcap directory", 2, ["directory", "is a directory"]),
    ("wire check counter_8192 --pcap empty", 2, ["empty", "at least 24"]),
    ("wire check counter_8192 --pcap text.txt", 2, ["text.txt", "neither a pcap nor a pcapng file"]),
    ("wire check counter_8192 --pcap good.uvh5", 2, ["good.uvh5", "neither a pcap nor a pcapng file"]),
    ("wire check counter_8192 --pcap good.pcap --port 0", 2, ["--port", "1"]),
    ("wire check counter_8192 --pcap good.pcap --packets -1", 2, ["--packets", "0"]),
    ("wire check counter_8192 --pcap cut.pcap", 1, []),
    ("wire check counter_8192 --pcap farthest.pcapng", 1, []),
    # visibility files
    *[
        (f"{command} {file}", 2, [file, said])
        for command in ("plot", "recover", "image", "export --to ms", "export --to uvfits --split-polarizations")
        for file, said in (
            ("nowhere.uvh5", "does not exist"),
            ("loop", "does not exist"),
            ("empty", "name a UVH5 file"),
            ("text.txt", "name a UVH5 file"),
            ("random.bin", "name a UVH5 file"),
            ("directory", "name a UVH5 file"),
            ("good.pcap", "name a UVH5 file"),
            ("small.toml", "name a UVH5 file"),
            ("other.h5", "name a UVH5 file"),
            ("no-header.uvh5", "name a UVH5 file"),
        )
    ],
    *[
        (f"{command} {file}", 1, [file, said])
        for command in ("plot", "recover", "image", "export --to ms", "export --to miriad --split-polarizations")
        for file, said in (("cut.uvh5", "copy it anew"), ("head.uvh5", "copy it anew"), ("zeros.uvh5", "another copy"))
    ],
    *[
        (f"{command} {name}.uvh5", 1, [name, "another copy"])
        for command in ("plot", "image", "export --to uvfits")
        for name in (
            *("no-data", "short-times", "nan-times", "text-times", "far-times", "no-frequencies", "flat-data"),
            *("unknown-polarization", "unknown-antennas", "no-catalog", "group-for-array", "short-data"),
        )
    ],
    ("plot nan-uvw.uvh5", 1, ["Header/uvw_array", "another copy"]),
    ("plot nothing.uvh5", 2, ["nothing.uvh5", "no integration"]),
    ("image nothing.uvh5", 1, ["nothing.uvh5"]),
    ("export nothing.uvh5 --to ms", 1, ["nothing.uvh5"]),
    ("recover number-times.uvh5", 1, ["Header/Ntimes", "another copy"]),
    ("recover negative-times.uvh5", 1, ["Header/Ntimes", "-5", "another copy"]),
    ("recover journal-foreign.uvh5", 1, ["journal-foreign.uvh5.journal", "nothing was changed"]),
    ("recover", 2, ["FILE", "ryle recover --help"]),
    ("plot good.uvh5 -o text.txt", 1, ["text.txt", "choose another"]),
    ("plot good.uvh5 -o text.txt/below", 1, ["text.txt", "is a file, not a directory"]),
    ("export good.uvh5 --to ms -o text.txt", 1, ["text.txt", "choose another"]),
    ("image good.uvh5 -o text.txt/x.png", 1, ["text.txt", "choose another"]),
    ("image good.uvh5 --robust nan", 2, ["--robust", "ryle image --help"]),
    ("image good.uvh5 --size 15", 2, ["--size", "16"]),
    ("image good.uvh5 --size 17", 2, ["pixels", "even"]),
    ("image good.uvh5 --pixel inf", 2, ["--pixel", "give another"]),
    ("image good.uvh5 --pixel -1", 2, ["--pixel", "ryle image --help"]),
    ("image good.uvh5 --threshold nan", 2, ["--threshold", "ryle image --help"]),
    ("image good.uvh5 --pixel 1e9", 2, ["horizon", "smaller"]),
    # captures
    ("capture counter_8192", 2, ["--at", "ryle capture --help"]),
    ("capture nosuch --at 127.0.0.1:9", 2, ["nosuch", "shipped are"]),
    ("capture counter_8192 --at nowhere", 2, ["--at", "10.0.0.1:7148"]),
    ("capture counter_8192 --at 127.0.0.1", 2, ["--at", "10.0.0.1:7148"]),
    ("capture counter_8192 --at 127.0.0.1:99999", 2, ["--at", "10.0.0.1:7148"]),
    ("capture counter_8192 --at 192.0.2.77:17148 --seconds 1", 1, ["192.0.2.77:17148", "one of this host's"]),
    (f"capture counter_8192 {AT} --to nowhere", 2, ["--to", "null"]),
    (f"capture counter_8192 {AT} --to chunks", 2, ["--files", "/data/run1"]),
    (f"capture counter_8192 {AT} --seconds nan", 2, ["--seconds", "ryle capture --help"]),
    (f"capture counter_8192 {AT} --seconds inf", 2, ["--seconds", "give another"]),
    (f"capture counter_8192 {AT} --idle -1", 2, ["--idle", "ryle capture --help"]),
    (f"capture counter_8192 {AT} --file-bytes huge", 2, ["--file-bytes", "2e9"]),
    (f"capture counter_8192 {AT} --file-bytes nan", 2, ["--file-bytes", "2e9"]),
    (f"capture counter_8192 {AT} --file-bytes 1e999", 2, ["--file-bytes", "2e9"]),
    (f"capture counter_8192 {AT} --gpu x", 2, ["--gpu", "commas"]),
    (f"capture counter_8192 {AT} --gpu nan", 2, ["--gpu", "commas"]),
    (f"capture counter_8192 {AT} --cores 1.5", 2, ["--cores", "whole numbers"]),
    (f"capture counter_8192 {AT} --cores -1", 2, ["--cores", "whole numbers"]),
    (f"capture counter_8192 {AT} --stream fid=0-15", 2, ["--stream", "FIELD=0-15"]),
    (f"capture paper_psa128 {AT} --stream fid=0-99999999999", 2, ["--stream", "fewer"]),
    (f"capture counter_8192 {AT} --chunks 1", 2, ["--chunks", "2"]),
    (f"capture counter_8192 {AT} --chunks 99999999999", 2, ["--chunks", "65536"]),
    (f"capture counter_8192 {AT} --chunk 99999999999", 2, ["--chunk", "16777216"]),
    (f"capture counter_8192 {AT} --window 99999999999999999999", 2, ["--window", "ryle capture --help"]),
    (f"capture counter_8192 {AT} --buffer 99999999999", 2, ["--buffer", "2047"]),
    (f"capture counter_8192 {AT} --threads 0", 2, ["--threads", "1"]),
    (f"capture counter_8192 {AT} --part 64", 2, ["--part", "leave it out"]),
    (f"capture counter_8192 {AT} --packet-ring nowhere0", 2, ["nowhere0", "there are"]),
    (f"capture counter_8192 {AT} --name a/b", 2, ["a/b", "letters"]),
    (f"capture counter_8192 {AT} --json directory", 1, ["directory", "name a file"]),
    (f"capture counter_8192 {AT} --json nowhere/x", 1, ["nowhere/x", "make the directory"]),
    (f"capture counter_8192 {AT}", 1, ["no packet came", "--at", "Ctrl-C"]),
    (f"capture paper_psa128 {AT}", 1, ["no paper_psa128 packets came", "Ctrl-C"]),
    # senders
    ("send", 2, ["--to ADDRESS:PORT"]),
    ("send counter_8192", 2, ["--to ADDRESS:PORT"]),
    ("send counter_8192 --to 10.0.0.1", 2, ["10.0.0.1:7148"]),
    ("send nosuch --to 127.0.0.1:9", 2, ["nosuch", "shipped are"]),
    ("send counter_8192 --to 127.0.0.1:9 --size 100", 2, ["8192 bytes"]),
    ("send counter_8192 --to 127.0.0.1:9 --field counter", 2, ["NAME=NUMBER"]),
    ("send counter_8192 --to 127.0.0.1:9 --field nosuch=1", 2, ["nosuch", "counter"]),
    ("send counter_8192 --to 127.0.0.1:9 --jump 5", 2, ["--jump", "SECONDS:PACKETS"]),
    ("send counter_8192 --to 127.0.0.1:9 --jump nan:5", 2, ["--jump", "SECONDS:PACKETS"]),
    ("send counter_8192 --to 127.0.0.1:9 --skew a", 2, ["--skew", "0,40,100"]),
    ("send counter_8192 --to 127.0.0.1:9 --skew nan", 2, ["--skew", "0,40,100"]),
    ("send counter_8192 --to 127.0.0.1:9 --from 192.0.2.1", 1, ["192.0.2.1", "ip addr"]),
    ("send counter_8192 --to 127.0.0.1:9 --gbps nan", 2, ["--gbps", "give another"]),
    ("send counter_8192 --to 127.0.0.1:9 --gbps -1", 2, ["gbps"]),
    ("send counter_8192 --to 127.0.0.1:9 --pps 0", 2, ["pps"]),
    ("send counter_8192 --to 127.0.0.1:9 --loss 2", 2, ["loss"]),
    ("send counter_8192 --to 127.0.0.1:9 --seconds -1", 2, ["seconds"]),
    ("send counter_8192 --to 127.0.0.1:9 --packets 0", 2, ["packets"]),
    ("send counter_8192 --to 127.0.0.1:9 --cores x", 2, ["--cores", "commas"]),
    ("send --pcap nowhere --to 127.0.0.1:9", 2, ["nowhere", "does not exist"]),
    ("send --pcap directory --to 127.0.0.1:9", 2, ["directory", "is a directory"]),
    ("send --pcap empty --to 127.0.0.1:9", 2, ["empty", "at least 24"]),
    ("send --pcap text.txt --to 127.0.0.1:9", 2, ["text.txt", "neither a pcap nor a pcapng file"]),
    # what runs, and the rest
    ("status --page nosuch", 2, ["nosuch", "ryle status"]),
    ("status --watch --interval 0", 2, ["--interval", "0.05"]),
    ("status --watch --interval nan", 2, ["--interval", "ryle status --help"]),
    ("status set nosuch 1", 2, ["nosuch"]),
    ("status set nosuch 1 --page nosuch", 2, ["nosuch", "ryle status"]),
    ("status dump newest x.chunks", 2, ["no ring"]),
    ("status dump newest directory", 2, ["directory", "is a directory"]),
    ("example demo -o text.txt", 1, ["text.txt", "choose another"]),
    ("fpga status", 1, ["--at"]),
    ("fpga status --at nowhere", 1, ["nowhere"]),
    ("fpga simulate --width 3", 2, ["--width 3", "64"]),
    ("fpga simulate --mac tri", 2, ["--mac tri", "model, cmac, dcmac"]),
    ("fpga demo --mac cmac --width 1024", 2, ["--width 1024", "512 bits"]),
    ("bench cpu --runs 0", 2, ["--runs", "1"]),
    ("bench channelize --seconds nan", 2, ["--seconds", "ryle bench --help"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return bad_files.make(tmp_path_factory.mktemp("bad"))


@pytest.fixture
def ryle(folder, monkeypatch, capfd):
    """Run a command line in the folder of bad files: gives status, output and errors."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("RYLE_STATUS_DIR", str(folder / "directory"))
    monkeypatch.delenv("RYLE_DEBUG", raising=False)
    monkeypatch.setattr(capture, "_FIRST", 0.2)

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        said = capfd.readouterr()
        return end.value.code, said.out, said.err

    return run


@pytest.mark.parametrize(("line", "status", "words"), CASES, ids=[line for line, _, _ in CASES])
def test_answers(ryle, line, status, words):
    found, out, err = ryle(*line.replace("PORT", str(free_ports(1))).split())
    assert found == status, (out, err)
    assert "Traceback" not in err and "fault of Ryle" not in err and "RYLE_DEBUG" not in err, err
    assert all(word in err for word in words), err
    said = re.split(r"(?m)^error: ", err)
    if words:
        assert len(said) == 2 and len(said[1].strip().splitlines()) <= 2, err


def test_there_are_many():
    assert len(CASES) >= 150 and len({line for line, _, _ in CASES}) == len(CASES)


def test_several_mistakes_are_told_together(ryle):
    status, _, err = ryle("check", "empty")
    assert status == 2 and err.startswith("empty: 5 mistakes") and "add [band]" in err


def test_byte_order_marks_are_no_mistake(ryle):
    assert ryle("check", "bom.toml")[0] == 0


def test_journals_that_contradict_themselves_change_nothing(ryle, folder):
    whole = (folder / "good.uvh5").read_bytes()
    for name in ("journal-count", "journal-length", "journal-offset"):
        status, out, _ = ryle("recover", f"{name}.uvh5")
        assert status == 0 and "2 integrations (journal discarded)" in out
        assert (folder / f"{name}.uvh5").read_bytes() == whole


def test_folders_to_write_to_are_made(ryle, folder):
    assert ryle("export", "good.uvh5", "--to", "uvfits", "-o", "new/one")[0] == 0
    assert (folder / "new/one/good.uvfits").is_file()
    assert ryle("image", "good.uvh5", "-o", "new/two/x.png")[0] == 0 and (folder / "new/two/x.png").is_file()
    assert ryle("image", "good.uvh5", "-o", "new/one")[0] == 0 and (folder / "new/one/good.png").is_file()


@pytest.mark.parametrize("text", ["", " ", "-", "--", "\0", "é" * 300, "x" * 5000, "a\nb", "\udcff", "/", "//", "~"])
@pytest.mark.parametrize("command", ["check", "plot", "run", "wire show", "correlate small.toml -i"])
def test_odd_names(ryle, command, text):
    status, _, err = ryle(*command.split(), text)
    assert status in (1, 2) and "Traceback" not in err and "fault of Ryle" not in err, err


# -- what nobody foresaw, and how a command ends ---------------------------------------------------------------------


def test_what_nobody_foresaw_is_called_a_fault(monkeypatch, capfd):
    monkeypatch.delenv("RYLE_DEBUG", raising=False)

    def broken():
        raise KeyError("nobody knows")

    assert guarded(broken) == 1
    said = capfd.readouterr().err
    assert "fault of Ryle" in said and "KeyError" in said and "RYLE_DEBUG=1" in said and len(said.splitlines()) == 2
    monkeypatch.setenv("RYLE_DEBUG", "1")
    with pytest.raises(KeyError):
        guarded(broken)


def test_statuses():
    assert told(ConfigError("a.toml", [Problem("x", 1, "must be 2")])) == (2, "error: a.toml: x = 1\n    must be 2")
    status, said = told(OSError(28, "No space left on device", "/data/x"))
    assert status == 1 and said == "error: /data/x: no space left on device; make room there or choose another place"
    status, said = told(MemoryError())
    assert status == 1 and "not enough memory" in said


def test_ctrl_c_and_a_closed_pipe_end_quietly(capfd):
    def interrupted():
        raise KeyboardInterrupt

    def unread():
        raise BrokenPipeError

    def meanwhile():  # libraries turn Ctrl-C into errors of their own
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise ImportError("cannot import x") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # commands of other tests leave theirs
    try:
        assert guarded(interrupted) == 130 and capfd.readouterr().err == "stopped by Ctrl-C\n"
        assert guarded(unread) == 141 and capfd.readouterr().err == ""
        assert guarded(meanwhile) == 130 and capfd.readouterr().err == "stopped by Ctrl-C\n"
    finally:
        signal.signal(signal.SIGINT, before)


def started(*arguments, **more):
    return subprocess.Popen([sys.executable, "-m", "ryle", *arguments], stderr=subprocess.PIPE, text=True, **more)


def test_output_that_cannot_be_written(tmp_path):
    with open("/dev/full", "w") as full:
        process = started("example", "demo", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "no space left" in err and "Traceback" not in err and len(err.splitlines()) == 1
    read, write = os.pipe()
    os.close(read)
    process = started("example", "demo", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141 and err == ""


@pytest.mark.parametrize(
    "command", ["--help", "check {}", "run {} --in-process -o {}.out", "simulate {} --pcap {}.pcap"]
)
def test_ctrl_c_at_any_moment(tmp_path, command):
    """From the first import on: by the signal itself, quietly with 130, or in good order."""
    file = tmp_path / "small.toml"
    file.write_text(bad_files.SMALL.read_text())
    for delay in fresh.rng().uniform(0, 1, 3):
        process = started(*command.format(file, file).split(), stdout=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        # Before Python has come to a file of Ryle's its own interpreter answers; nobody can change that. What it then
        # shows of a line that makes an editable installation known has all of Ryle's directories in it.
        early = f'File "{PACKAGE}/' not in err
        assert process.returncode in (0, 130, -signal.SIGINT) or early, (delay, err)
        assert "Traceback" not in err or early, (delay, err)
