"""A terminal without what a library underneath says."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def quiet_orbax() -> Iterator[None]:
    """Keeps what Orbax and its threads say off the user's terminal: what matters is raised as well."""

    def keep(record: logging.LogRecord) -> bool:
        orbax = f"{os.sep}orbax{os.sep}"
        return orbax not in record.pathname and orbax not in record.getMessage()

    def told(unraisable: Any) -> None:  # by threads that find that others failed before them
        if str(unraisable.exc_value) != "Event loop is closed":
            before(unraisable)

    loggers, before = [logging.getLogger(name) for name in ("absl", "asyncio")], sys.unraisablehook
    for logger in loggers:
        logger.addFilter(keep)
    sys.unraisablehook = told
    try:
        yield
    finally:
        sys.unraisablehook = before
        for logger in loggers:
            logger.removeFilter(keep)
