"""``python -m bench`` and ``bert-bench``. Ctrl-C ends it in one line from here on: imports alone
take seconds."""

import os
import signal
from types import FrameType
from typing import NoReturn


def end_if_importing(number: int, frame: FrameType | None) -> None:
    """A handler of Ctrl-C that ends the process where something is being imported, since a library
    may make another error of it, or being finalised, since Python would drop it.

    Raises:
        KeyboardInterrupt: elsewhere, as Python's own handler.
    """
    while frame is not None:
        if (
            frame.f_code.co_filename.startswith("<frozen importlib")
            or frame.f_code.co_name == "__del__"
        ):
            os.write(2, b"bench: interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


def main() -> NoReturn:
    # else somebody wants it ignored
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, end_if_importing)
    try:
        from bench.cli import main as run

        run()
    finally:
        if handled:
            # all is said; Python would show tracebacks as it ends
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
