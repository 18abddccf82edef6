"""``python -m ryle``, and the command ``ryle``."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. While it is imported, Ctrl-C ends the process at once: there is nothing to put in order."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a parent has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ryle.cli import main as run

    run()


if __name__ == "__main__":
    main()
