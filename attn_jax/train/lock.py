"""One run at a time in a workdir."""

import contextlib
import fcntl
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from attn_jax.train.distributed import first_alone

# A lock belongs to the process, so which of its threads holds it has to be known in the process.
_holders: dict[str, int] = {}


class WorkdirBusy(RuntimeError):
    """Another run holds the workdir."""


@contextlib.contextmanager
def hold(workdir: str | os.PathLike) -> Iterator[None]:
    """Holds a workdir; whoever asks for it meanwhile is refused, but for the holder itself.

    The kernel drops the lock with the process, however it dies, so none is ever left behind.

    Of several processes that are one run, the first holds it for all.

    Args:
      workdir: made if it is not there.

    Raises:
      WorkdirBusy: another run, in this process or another, holds it; the message says which.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as workdir, hold(workdir):
    ...     with hold(workdir):
    ...         print("held once, by us")
    held once, by us
    """
    with contextlib.ExitStack() as stack:
        first_alone(lambda: stack.enter_context(_hold(workdir)))
        yield


@contextlib.contextmanager
def _hold(workdir: str | os.PathLike) -> Iterator[None]:
    path = Path(workdir) / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    name = os.path.realpath(path)
    if _holders.get(name) == threading.get_ident():
        yield
        return
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise WorkdirBusy(
                f"{Path(workdir)} is in use by {holder}; wait for it, or choose another workdir"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        _holders[name] = threading.get_ident()
        try:
            yield
        finally:
            del _holders[name]
