"""Where modules lie: imports go one way through the list of folders of docs/design.md, and never in a circle."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
#: What each may import: itself and what stands before it.
ORDER = (
    *("version", "host_clock", "host_time", "problems", "toml_file", "kept", "chunk", "wire", "config", "array"),
    *("stream", "receive", "send", "store", "gpu", "channelize", "correlate"),
    *(
        "simulate",
        "products",
        "monitor",
        "fpga",
        "engines",
        "plan",
        "deploy",
        "watch",
        "serve",
        "bench",
        "doctor",
        "cli",
        "__main__",
    ),
)


def modules():
    """Give every module's file by its dotted name."""
    found = {}
    for file in SOURCE.rglob("*.py"):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports():
    """Give the modules of ryle that each module imports, wherever in it, for types too."""
    files = modules()
    found = {}
    for name, file in files.items():
        found[name] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names if alias.name in files}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{file}:{node.lineno}: import ryle's modules by their whole names"
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                found[name] |= {w if w in files else node.module for w in whole if (node.module or "") in files}
        found[name].discard(name)
    return found


def folder(module):
    return (*module.split("."), "")[1]


def test_every_module_stands_in_the_order():
    assert {folder(m) for m in modules()} - {""} == set(ORDER)


def test_imports_go_one_way():
    wrong = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if folder(other) and folder(module) and ORDER.index(folder(other)) > ORDER.index(folder(module))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_circles():
    graph = imports()
    done = set()

    def visit(module, way):
        if module in way:
            pytest.fail(" imports ".join([*way[way.index(module) :], module]))
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, [*way, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
