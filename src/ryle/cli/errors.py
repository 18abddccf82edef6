"""How a command ends: what is said of an error, and the exit status.

Mistakes end in one or two lines: which file or key, what is wrong, what to do. What nobody foresaw is called a fault of
Ryle. ``RYLE_DEBUG=1`` gives the traceback of either.
"""

from __future__ import annotations

import dis
import os
import signal
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import FrameType, TracebackType

REPORT = "https://ryle.readthedocs.io"


_STOPPED = "stopped by Ctrl-C"


class Status(IntEnum):
    """Exit statuses, the same of all subcommands."""

    DONE = 0
    FAILED = 1  # asked rightly, but it could not be done, or what was looked at is not right
    USAGE = 2  # asked wrongly: arguments, an observation file, a file of another kind
    INTERRUPTED = 130  # Ctrl-C
    UNREAD = 141  # nobody reads what is printed any more


def guarded(command: Callable[[], int | None]) -> int:
    """Run a command to its end, whatever that is.

    Parameters
    ----------
    command : callable
        Does the work; gives the exit status, None for success. It may raise anything.

    Returns
    -------
    int
        The exit status. Of an error it has been said on standard error what is to be said.

    Raises
    ------
    Exception
        The error itself, if ``RYLE_DEBUG`` is set.
    """
    interrupted = False

    def interrupt(_: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True  # libraries may turn the exception into another
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                _say(_STOPPED)  # some print it too, while they are being imported: nothing is under way then
                os._exit(Status.INTERRUPTED)
            frame = frame.f_back
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    ours = before in (signal.default_int_handler, signal.SIG_DFL) and _in_main_thread()
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    status: int
    try:
        status = int(command() or 0)
        sys.stdout.flush()
    except KeyboardInterrupt:
        interrupted, status = True, Status.INTERRUPTED
    except SystemExit as end:
        broken = isinstance(end.__context__, BrokenPipeError)
        status = Status.UNREAD if broken else end.code if isinstance(end.code, int) else int(end.code is not None)
    except BrokenPipeError:
        status = Status.UNREAD
    except Exception as error:
        if interrupted:
            status = Status.INTERRUPTED
        elif os.environ.get("RYLE_DEBUG"):
            raise
        else:
            status, text = told(error)
            _say(text)
    if ours:
        signal.signal(signal.SIGINT, before)
    if interrupted and status != Status.DONE:
        status = Status.INTERRUPTED
        _say(_STOPPED)
    _let_go_of_output()
    return status


def told(error: Exception) -> tuple[Status, str]:
    """Give the exit status of an error, and what is to be said of it."""
    from ryle.problems import ConfigError, of_system

    if hasattr(error, "format_message"):  # of the command line's parser
        return Status.USAGE, _usage(error)
    if isinstance(error, ConfigError):
        return Status.USAGE, f"error: {error}"
    if _by_ryle(error.__traceback__) and isinstance(error, ValueError | RuntimeError | OSError | LookupError):
        usage = isinstance(error, ValueError) or getattr(error, "usage", False)
        words = error.args[-1] if isinstance(error, LookupError) and error.args else error
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            words = error.strerror
        return Status.USAGE if usage else Status.FAILED, f"error: {words}"
    if isinstance(error, OSError) and error.errno is not None:
        return Status.FAILED, f"error: {of_system(error)}"
    if isinstance(error, MemoryError):
        return Status.FAILED, f"error: not enough memory{_after_colon(error)}; ask for less at a time, or free memory"
    if type(error).__module__.startswith("ryle."):
        return Status.FAILED, f"error: {error}"
    return Status.FAILED, _fault(error)


def _usage(error: Exception) -> str:
    """Say what is wrong with the arguments, and how to see what is right."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error)
    message = " ".join(str(error.format_message()).split()).rstrip(".")  # type: ignore[attr-defined]
    path = context.command_path if context is not None else "ryle"
    return f"error: {message}; `{path} --help` shows what can be asked"


def _fault(error: Exception) -> str:
    """Say of what nobody foresaw that it is Ryle's, and where to report it."""
    words = " ".join(f"{type(error).__name__}{_after_colon(error)}".split())
    place = _place(error.__traceback__)
    return (
        f"error: this is a fault of Ryle, not yours: {words[:300]}{place}\n"
        f"please report it with the command and its files (how: {REPORT}); RYLE_DEBUG=1 shows where it happened"
    )


def _place(trace: TracebackType | None) -> str:
    """Name the innermost line of Ryle's."""
    place, root = "", str(Path(__file__).resolve().parent.parent.parent)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(root):
            place = f" ({os.path.relpath(file, root)}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _after_colon(error: Exception) -> str:
    text = str(error)
    return f": {text}" if text else ""


def _by_ryle(trace: TracebackType | None) -> bool:
    """Whether an error was raised by a ``raise`` of Ryle's own, which is foreseen, and not by what Ryle called."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.startswith("ryle.") and dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


def _say(text: str) -> None:
    """Print on standard error; the first word in red if a person reads it there."""
    label, colon, rest = text.partition(": ")
    if colon and label == "error" and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        text = f"\033[1;31merror:\033[0m {rest}"
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads that either; the exit status says it


def _let_go_of_output() -> None:
    """Leave nothing in buffers that the interpreter would fail to write as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            try:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
            except (OSError, ValueError):
                pass
