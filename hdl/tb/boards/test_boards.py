# SPDX-License-Identifier: BSD-3-Clause
"""The example tops elaborate with AMD's parts as black boxes, and what the builds read is there and whole."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from levels import LIMITS, levels
from prove import read, relative, yosys
from resources import LATCHES
from simulation import BUILD, ROOT, RTL

VENDOR = ROOT / "hdl" / "vendor"
COMMON = sorted((VENDOR / "common").glob("*.sv"))
STUBS = sorted((VENDOR / "stubs").glob("*.sv"))
BOARDS = {"u55c": "ryle_u55c", "vpk120": "ryle_vpk120"}


def elaborated(board):
    """What yosys reads for a board's top."""
    return read(BOARDS[board], "--keep-hierarchy", also=[*COMMON, *STUBS, *sorted((VENDOR / board).glob("*.sv"))])


#: What AMD makes for each, as black boxes.
PARTS = {
    "u55c": ("cmac_usplus_0", "xdma_0"),
    "vpk120": ("dcmac_0_exdes_support_wrapper", "dcmac_0_clk_wiz_0", "ryle_ps_wrapper"),
}


@pytest.mark.parametrize("board", BOARDS)
def test_tops_elaborate(board):
    """slang reads them with the widths and names of all ports, yosys finds no latch, loop or wire of two drivers."""
    parts = "; ".join(f"select -assert-count 1 t:{p}" for p in PARTS[board])
    said = yosys(f"{elaborated(board)}; proc; check -assert; select -assert-none {LATCHES}; {parts}", board)
    assert warnings(said) == []


def warnings(said):
    """Give slang's warnings of the boards' files: a port of another width, say."""
    return re.findall(r"^hdl/vendor\S+ Warning.*$", said, re.M)


def test_a_wrong_port_is_found():
    """A black box with a narrower bus, and one with another name."""
    stub = (VENDOR / "stubs" / "cmac_usplus_0.sv").read_text()
    (folder := BUILD / "boards").mkdir(parents=True, exist_ok=True)
    for text, other in (("[511:0] tx_axis_tdata", "[255:0] tx_axis_tdata"), ("stat_rx_aligned", "stat_aligned")):
        assert text in stub
        (file := folder / "cmac_usplus_0.sv").write_text(stub.replace(text, other))
        command = elaborated("u55c").replace("hdl/vendor/stubs/cmac_usplus_0.sv", relative([file]))
        with pytest.raises(AssertionError):
            assert warnings(yosys(command, "a wrong port")) == []


# Adapter, width of its limit of levels.
@pytest.mark.parametrize(
    "top, width",
    [("cmac_adapter", 512), ("mac_segmented", 1024), pytest.param("mac_segmented", 512, marks=pytest.mark.soak)],
)
def test_few_luts_between_flip_flops(top, width):
    found = {m: most.most for m, most in levels(top, width, tuple(COMMON)).items()}
    assert {m: n for m, n in found.items() if n > LIMITS[width]} == {}
    assert top in found and "frame_pad" in found


def core_files(file):
    """Give the files of a FuseSoC core, as paths, by file set."""
    text = file.read_text()
    assert text.startswith("CAPI=2:\n")
    core = yaml.safe_load(text.partition("\n")[2])
    assert set(core) >= {"name", "description", "filesets", "targets"}
    assert core["targets"]["default"]["toplevel"]
    for target in core["targets"].values():
        assert set(target["filesets"]) <= set(core["filesets"])
    names = {
        n: [next(iter(f)) if isinstance(f, dict) else f for f in s.get("files", [])]
        for n, s in core["filesets"].items()
    }
    return core, {n: [(file.parent / f).resolve() for f in files] for n, files in names.items()}


CORES = {p.stem: p for p in sorted((ROOT / "hdl").glob("**/*.core"))}
#: What no FPGA has in it.
SIMULATION = {RTL / f"{n}.sv" for n in ("mac_model", "mac_model_tx", "mac_model_rx", "mac_pkg")}


def test_there_is_a_core_file_for_the_core_and_each_board():
    assert set(CORES) == {"ryle_core", *BOARDS.values()}


@pytest.mark.parametrize("name", CORES)
def test_core_files_name_what_is_there(name):
    core, sets = core_files(CORES[name])
    for files in sets.values():
        assert [str(f) for f in files if not f.exists()] == []
        assert len(set(files)) == len(files)
    known = {core_files(c)[0]["name"] for c in CORES.values()}
    for s in core["filesets"].values():
        assert set(s.get("depend", [])) <= known


def test_every_source_is_in_a_core_file():
    listed = {f for name in CORES for files in core_files(CORES[name])[1].values() for f in files}
    wanted = (set(RTL.glob("*.sv")) - SIMULATION) | set(COMMON)
    wanted |= {f for board in BOARDS for f in (VENDOR / board).iterdir() if f.suffix in (".sv", ".xdc", ".tcl")} - {
        VENDOR / board / "build.tcl" for board in BOARDS
    }
    assert wanted <= listed, sorted(str(f) for f in wanted - listed)
    assert not listed & SIMULATION


def test_packages_come_first():
    _, sets = core_files(CORES["ryle_core"])
    names = [f.name for f in sets["rtl"]]
    packages = [n for n in names if n.endswith("_pkg.sv")]
    assert names[: len(packages)] == packages


@pytest.mark.parametrize("board", BOARDS)
def test_fusesoc_sets_up_a_build(board, tmp_path):
    """FuseSoC itself resolves the cores and writes Vivado's project with every file in it."""
    core = yaml.safe_load(CORES[BOARDS[board]].read_text().partition("\n")[2])
    settings = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    command = ["fusesoc", "--cores-root", str(ROOT / "hdl"), "run", "--setup", "--no-export", core["name"]]
    done = subprocess.run(
        [str(Path(sys.executable).parent / command[0]), *command[1:]],
        cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (project,) = tmp_path.glob("build/*/*/*[0-9].tcl")
    text = project.read_text()
    for name in ("ryle_core", BOARDS[board]):
        for file in core_files(CORES[name])[1]["rtl"]:
            assert f"/{file.name}" in text or f" {file.name}" in text, file.name
    assert core["targets"]["default"]["toplevel"] in text


@pytest.mark.parametrize("board", BOARDS)
def test_the_file_list_is_what_the_core_files_say(board):
    """files.f is for tools that know no FuseSoC, and what build.tcl reads."""
    lines = (VENDOR / board / "files.f").read_text().split()
    _, core = core_files(CORES["ryle_core"])
    _, top = core_files(CORES[BOARDS[board]])
    expected = [*core["rtl"], *top["rtl"]]
    assert [(VENDOR / board / f).resolve() for f in lines] == expected


@pytest.mark.parametrize("board", BOARDS)
def test_builds_name_what_is_there(board):
    """Files that the scripts read, the top, and each part that the top has and AMD makes."""
    build, ip = ((VENDOR / board / n).read_text() for n in ("build.tcl", "ip.tcl"))
    for script in (build, ip):
        assert script.count("{") == script.count("}") and script.count("[") == script.count("]")
    assert BOARDS[board] in build
    for file in re.findall(r"\$here/([\w./]+)", build):
        assert (VENDOR / board / file).exists() or file == "pins.xdc", file
    top = "".join(f.read_text() for f in (VENDOR / board).glob("*.sv"))
    for part in PARTS[board]:
        assert re.search(rf"^  {part} \w+ \(", top, re.M), part
        assert part.removesuffix("_wrapper") in ip, part


def test_constraints_name_ports_and_clocks_of_the_top():
    ports = set(
        re.findall(r"\b(\w+)\b(?=[,;\n ]|$)", (VENDOR / "u55c" / "ryle_u55c.sv").read_text().partition(");")[0])
    )
    for file in (VENDOR / "u55c").glob("*.xdc"):
        for port in re.findall(r"get_ports \{?(\w+)", file.read_text()):
            assert port in ports, f"{file.name}: {port}"
