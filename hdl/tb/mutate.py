# SPDX-License-Identifier: BSD-3-Clause
"""Puts faults into the core, one at a time, and sees whether the benches find them: `make hdl-mutate`.

The faults are those of mutants.toml. Each goes into a copy of hdl/rtl under build/hdl/mutants, never into the source, and its
bench runs there. A bench must pass without faults first: one that fails anyway proves nothing. mutants.json keeps what came out,
with a digest of all that it came from (the fault, the sources that its simulation was built from, the bench): a run goes on where the last
one ended, and repeats what has changed since. hdl/MUTANTS.md is the table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ryle.fpga.verilate import BUILD, ROOT, RTL

TB = Path(__file__).parent
LIST, RESULTS, TABLE = TB / "mutants.toml", TB / "mutants.json", ROOT / "hdl" / "MUTANTS.md"
WORK = BUILD / "mutants"
#: Files beside this one that no bench uses.
TOOLS = {
    "clock_domains.py",
    "conftest.py",
    "levels.py",
    "mutate.py",
    "prove.py",
    "resources.py",
    "simulation.py",
    "untimed.py",
}
#: Numbers that the benches draw: always these, so that a run can be repeated.
SEED = 1


@dataclass(frozen=True)
class Mutant:
    """A fault: texts of a module and what stands in their place."""

    name: str
    changes: tuple[tuple[str, str], ...]
    benches: tuple[str, ...]
    equivalent: str = ""

    @property
    def module(self) -> str:
        return self.name.partition(":")[0]

    def text(self) -> str:
        """Give the module with the fault in it.

        Raises
        ------
        ValueError
            If a text is not there exactly once, or nothing changes.
        """
        made = (RTL / f"{self.module}.sv").read_text()
        for text, other in self.changes:
            if (n := made.count(text)) != 1:
                raise ValueError(f"{self.name}: hdl/rtl/{self.module}.sv has {n} times, not once: {text!r}")
            if text == other:
                raise ValueError(f"{self.name}: nothing changes in {text!r}")
            made = made.replace(text, other)
        return made


@dataclass
class Result:
    """What became of a mutant."""

    verdict: str  # killed, survived, does not build
    how: str  # bench, and what it said
    seconds: float
    sources: list[str] = field(default_factory=list)  # of hdl/rtl, that its simulations were built from
    digest: str = ""


def load() -> tuple[list[Mutant], dict[str, str]]:
    """Read mutants.toml: the mutants, and the benches by their short names.

    Raises
    ------
    ValueError
        If two have one name, or a bench is not in [benches].
    """
    table = tomllib.loads(LIST.read_text())
    made = []
    for m in table["mutant"]:
        benches = [m["bench"]] if isinstance(m["bench"], str) else m["bench"]
        if unknown := [b for b in benches if b not in table["benches"]]:
            raise ValueError(f"{m['name']}: [benches] has no {unknown[0]!r}; it has {', '.join(table['benches'])}")
        made.append(Mutant(m["name"], tuple(map(tuple, m["change"])), tuple(benches), m.get("equivalent", "")))
    if double := [n for n, count in Counter(m.name for m in made).items() if count > 1]:
        raise ValueError(f"mutants.toml has two mutants {double[0]!r}")
    return made, table["benches"]


def digest(mutant: Mutant, benches: dict[str, str], sources: Iterable[str]) -> str:
    """Digest of all that a result comes from."""
    made = hashlib.sha256(repr(mutant).encode())
    folders = {(TB / benches[b]).parent for b in mutant.benches}
    files = [p for f in folders for p in (*f.glob("*.py"), *f.glob("*.sv"))]
    files += [p for p in TB.glob("*.py") if p.name not in TOOLS]
    files += [RTL / name for name in sources]
    for path in sorted(files):
        made.update(path.name.encode())
        made.update(path.read_bytes() if path.exists() else b"gone")
    return made.hexdigest()[:16]


def run(bench: str, rtl: Path | None, build: Path, limit: float) -> tuple[int, str, float]:
    """Run a bench on a copy of the sources: pytest's exit status, what it said, and seconds."""
    env = {**os.environ, "HDL_SEED": str(SEED), "PYTHONDONTWRITEBYTECODE": "1"}
    if rtl is not None:
        env |= {"RYLE_HDL_RTL": str(rtl), "RYLE_HDL_BUILD": str(build), "COCOTB_MAX_FAILURES": "1"}  # one will do
    begun = time.monotonic()
    options = ["-q", "-x", "-p", "no:cacheprovider", "--timeout", str(round(limit))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"hdl/tb/{bench}"],
        cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout, time.monotonic() - begun


def judge(mutant: Mutant, benches: dict[str, str], usual: dict[str, float]) -> Result:
    """Try a mutant; `usual` has the seconds that its benches take without it, with what was built."""
    folder = WORK / hashlib.sha256(mutant.name.encode()).hexdigest()[:10]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RTL, rtl := folder / "rtl")
    (rtl / f"{mutant.module}.sv").write_text(mutant.text())
    (build := folder / "build").mkdir()
    for runtime in BUILD.glob("runtime-*"):
        (build / runtime.name).symlink_to(runtime)  # Verilator's own, the same for all
    begun = time.monotonic()
    result = Result("survived", ", ".join(mutant.benches), 0.0)
    for bench in mutant.benches:
        status, said, _ = run(benches[bench], rtl, build, max(120, 8 * usual[bench]))
        if "BuildError" in said:
            result = Result("does not build", "\n".join(re.findall(r"%Error.*", said)[:2]), 0.0)
            break
        if status == 1:
            names = re.search(r": failed: (.*?) skipped:", said)
            printed = re.search(r"%Error: \S+ (?:Assertion failed in )?(.*)", said)
            late = "did not end" if "Timeout" in said else ""
            what = names[1].strip() if names else printed[1] if printed else late or "failed"
            result = Result("killed", f"{bench}: {what[:100]}", 0.0)
            break
        if status or " skipped" in said:
            raise SystemExit(f"{mutant.name}: {benches[bench]} did not run:\n{said[-3000:]}")
    stamps = [json.loads(s.read_text()) for s in build.glob("*/made-from.json")]
    result.sources = sorted({Path(p).name for s in stamps for p in s if Path(p).parent == rtl})
    result.seconds = round(time.monotonic() - begun, 1)
    result.digest = digest(mutant, benches, result.sources)
    shutil.rmtree(folder)
    return result


def control(bench: str, benches: dict[str, str]) -> float | None:
    """Run a bench without faults, unless it has passed so already; say how long it takes, or None if it fails (which is printed)."""
    (WORK / "controls").mkdir(parents=True, exist_ok=True)
    of = digest(Mutant("", (), (bench,)), benches, [p.name for p in RTL.glob("*.sv")])
    passed = WORK / "controls" / of
    if passed.exists():
        return float(passed.read_text())
    status, said, seconds = run(benches[bench], None, BUILD, 3600)
    if status or " skipped" in said:
        print(f"{benches[bench]} does not pass without a mutant:\n{said[-3000:]}", flush=True)
        return None
    passed.write_text(str(seconds))
    return seconds


def write(mutants: list[Mutant], results: dict[str, Result]) -> None:
    """Write mutants.json and MUTANTS.md."""
    known = {m.name: results[m.name] for m in mutants if m.name in results}
    RESULTS.write_text(json.dumps({n: asdict(r) for n, r in known.items()}, indent=1, ensure_ascii=False) + "\n")
    counts = Counter(r.verdict for r in known.values())
    explained = [m for m in mutants if m.equivalent]
    rest = [m for m in mutants if not m.equivalent]
    killed = sum(known[m.name].verdict == "killed" for m in rest if m.name in known)
    lines = [
        "# Mutants of the core, and what finds them",
        "",
        "Written by `make hdl-mutate` (`tb/mutate.py`): each fault of `tb/mutants.toml` alone in a copy of `rtl/`, and the bench",
        f"that has to find it, at 64 bits where nothing else is said, with the seed {SEED}. A bench has passed without the fault",
        "before. Faults that change nothing that a bench could see are explained, and must survive.",
        "",
        f"**{killed} of {len(rest)} killed**; {len(explained)} explained; {len(mutants) - len(known)} not tried; "
        f"{counts['does not build']} do not build.",
        "",
        "| module | fault | verdict | by |",
        "|---|---|---|---|",
    ]
    for m in mutants:
        fault = m.name.partition(": ")[2]
        r = known.get(m.name)
        how = f"explained: {m.equivalent}" if m.equivalent else r.how if r else ""
        lines.append(f"| `{m.module}` | {fault} | {r.verdict if r else 'not tried'} | {how} |".replace("\n", " "))
    TABLE.write_text("\n".join(lines) + "\n")


def wrong(mutant: Mutant, result: Result) -> bool:
    """Whether this is not as it should be."""
    return result.verdict != ("survived" if mutant.equivalent else "killed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--only", default="", metavar="REGEX", help="those with such names")
    parser.add_argument("--again", action="store_true", help="also those that have been tried and have not changed")
    options = parser.parse_args()

    mutants, benches = load()
    had = {n: Result(**r) for n, r in json.loads(RESULTS.read_text()).items()} if RESULTS.exists() else {}
    chosen = [m for m in mutants if re.search(options.only, m.name)]
    if not chosen:
        raise SystemExit(f"--only {options.only}: no mutant of {LIST.name} has such a name")
    for m in chosen:
        m.text()

    def is_new(m: Mutant) -> bool:
        return m.name not in had or had[m.name].digest != digest(m, benches, had[m.name].sources)

    todo = [m for m in chosen if options.again or is_new(m)]
    print(f"{len(chosen)} mutants, {len(todo)} to try, {options.jobs} at a time", flush=True)
    done, begun = 0, time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        needed = sorted({b for m in todo for b in m.benches})
        seconds = dict(zip(needed, pool.map(lambda b: control(b, benches), needed), strict=True))
        usual = {b: s for b, s in seconds.items() if s is not None}
        print(
            f"{len(usual)} of {len(needed)} benches pass without mutants ({time.monotonic() - begun:.0f} s)", flush=True
        )
        unable = [m for m in todo if not usual.keys() >= set(m.benches)]
        todo = sorted((m for m in todo if m not in unable), key=lambda m: usual[m.benches[0]])  # quick ones first
        total, spent = sum(usual[m.benches[0]] for m in todo), 0.0
        begun = time.monotonic()

        def one(m: Mutant) -> None:
            nonlocal done, spent
            had[m.name] = result = judge(m, benches, usual)
            done, spent = done + 1, spent + usual[m.benches[0]]
            left = (time.monotonic() - begun) / spent * (total - spent)
            mark = "  <-- WRONG" if wrong(m, result) else ""
            print(
                f"{done}/{len(todo)}, {left / 60:.0f} min left: {m.name}: {result.verdict} ({result.how}){mark}",
                flush=True,
            )
            write(mutants, had)

        list(pool.map(one, todo))
    write(mutants, had)
    bad = [m for m in chosen if m in unable or wrong(m, had[m.name])]
    print(f"{len(chosen) - len(bad)} of {len(chosen)} as they should be")
    for m in bad:
        print(
            f"  {m.name}: "
            + ("not tried: its bench fails" if m in unable else f"{had[m.name].verdict}: {had[m.name].how}")
        )
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
