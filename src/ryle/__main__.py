"""``python -m ryle``, and the command ``ryle``.

While modules are imported there is nothing to put in order: Ctrl-C ends the process at once and says nothing. It does
so from the first line on, for which this module imports only what the interpreter has loaded already.
"""

import _signal  # type: ignore[import-not-found, unused-ignore]  # `signal` without what it imports

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # not where a parent has it ignored
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> None:
    """Run the command line, and end."""
    from ryle.cli import main as run

    run()


if __name__ == "__main__":
    main()
