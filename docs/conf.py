"""Sphinx configuration."""

import sys
from pathlib import Path

import ryle

sys.path.insert(0, str(Path(__file__).parent))
import casper_accesses
import command_line
import packet_formats
import register_map

project = "Ryle"
author = "The Ryle developers"
copyright = "2026, The Ryle developers"
version = release = ryle.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "reference/generated/commands.md", "reference/generated/formats.md"]
templates_path = ["_templates"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autosummary_generate = True
autosummary_ignore_module_all = False  # a package documents what it exports, not what it imports
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Docstrings write |delay| for a magnitude and LINKTYPE_ for the family of names at tcpdump.org, as formulas and
# standards do; reStructuredText takes the one for a substitution and the other for a link.
# Compiled parts document themselves in the modules that wrap them.
html_theme = "furo"
html_static_path = ["_static"]
html_title = "Ryle"

# Written anew at every build; included by reference/command-line.md and reference/packet-formats.md.
generated = Path(__file__).parent / "reference" / "generated"
generated.mkdir(exist_ok=True)
(generated / "casperfpga.md").write_text(casper_accesses.page())
(generated / "commands.md").write_text(command_line.page())
(generated / "formats.md").write_text(packet_formats.page())
(generated / "registers.md").write_text(register_map.page())
