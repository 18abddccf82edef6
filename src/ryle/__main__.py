"""``python -m ryle``."""

from ryle.cli import main

main()
