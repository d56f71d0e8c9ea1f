"""SIGTERM and SIGINT as a wish to stop: heard, and granted where it is safe."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupted(SystemExit):
    """A run stopped because it was told to, after saving; uncaught, the process exits with 0."""

    def __init__(self, message: str):
        super().__init__(0)
        self.message = message

    def __str__(self) -> str:
        return self.message


class StopAsked(BaseException):
    """Raised inside work that may be thrown away, when a signal comes."""


class Signals:
    """Listens while it is entered; the second signal kills the process as if nobody listened.

    Handlers can only be installed in the main thread; elsewhere nothing is heard.

    Attributes:
      received: the signal that came, or None.

    >>> with Signals() as signals:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     signals.received.name
    'SIGTERM'
    """

    _LISTENED = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._disposable = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in self._LISTENED:
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    @contextlib.contextmanager
    def disposable(self) -> Iterator[None]:
        """Work that a signal ends at once, by `StopAsked`."""
        self._disposable = True
        try:
            if self.received:
                raise StopAsked
            yield
        finally:
            self._disposable = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.received = signal.Signals(number)
        # Python drops a signal that came together with this one if its handler has gone by the time
        # that it gets there. Another signal makes it look now.
        signal.signal(number, lambda *_: None)
        signal.raise_signal(number)
        for listened in self._LISTENED:
            signal.signal(listened, signal.SIG_DFL)
        if self._disposable:
            raise StopAsked
