"""Sphinx configuration."""

import ryle

project = "Ryle"
author = "The Ryle developers"
copyright = "2026, The Ryle developers"
version = release = ryle.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autosummary_generate = True
autodoc_typehints = "none"
# Compiled parts document themselves in the modules that wrap them.
html_theme = "furo"
html_static_path = ["_static"]
html_title = "Ryle"
