"""What a run with a person watching leaves behind."""

from pathlib import Path

from ryle.engines.run import RunResult


def test_each_file_is_named_once(tmp_path, monkeypatch):
    """Engines say absolute paths, whatever was asked for: a file named twice would be exported and drawn twice."""
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    for name in ("demo", "demo-2"):
        Path("out", f"{name}.uvh5").touch()
    result = RunResult(Path("out/demo.uvh5"))
    for name in ("demo", "demo-2", "demo-2", "gone", "demo"):
        result.add(str(tmp_path / "out" / f"{name}.uvh5"))
    result.add("out/demo-2.uvh5")
    result.add("")
    assert result.files == [Path("out/demo.uvh5"), tmp_path / "out" / "demo-2.uvh5"]
