"""``python -m ryle``."""

from .cli import main

main()
