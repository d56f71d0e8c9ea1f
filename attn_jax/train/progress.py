"""What a person sees while it trains: a bar on a terminal, plain lines elsewhere; on stderr."""

import sys
from collections.abc import Mapping
from typing import Protocol, TextIO


class Progress(Protocol):
    """Tells a person how far a run is."""

    def update(self, step: int, values: Mapping[str, float], seconds_left: float) -> None:
        """After a logged step."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def close(self) -> None:
        """The end."""


def progress(steps: int, stream: TextIO | None = None) -> Progress:
    """A bar if the stream is a terminal, lines if not.

    Args:
      steps: how many there will be.
      stream: stderr by default.
    """
    stream = sys.stderr if stream is None else stream
    return Bar(steps, stream) if stream.isatty() else Lines(steps, stream)


class Lines:
    """One line for each logged step.

    >>> lines = Lines(100, sys.stdout)
    >>> lines.update(50, {"loss": 2.5, "learning_rate": 0.001}, 61.0)
    step 50/100  loss 2.5  learning rate 0.001  1:01 left
    """

    def __init__(self, steps: int, stream: TextIO):
        self._steps, self._stream = steps, stream

    def update(self, step: int, values: Mapping[str, float], seconds_left: float) -> None:
        """After a logged step."""
        self.say(f"step {step}/{self._steps}  {described(values)}  {clock(seconds_left)} left")

    def say(self, text: str) -> None:
        """A line that stays."""
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to close."""


class Silent:
    """Tells nothing: of several hosts one speaks for all."""

    def update(self, step: int, values: Mapping[str, float], seconds_left: float) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Bar:
    """A bar that is redrawn in place."""

    def __init__(self, steps: int, stream: TextIO):
        import rich.console
        import rich.progress

        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("step"),
            rich.progress.MofNCompleteColumn(),
            rich.progress.BarColumn(bar_width=None),
            rich.progress.TextColumn("{task.fields[values]}"),
            console=rich.console.Console(file=stream, force_terminal=True),
            expand=True,
        )
        self._task = self._bar.add_task("", total=steps, values="compiling")
        self._bar.start()

    def update(self, step: int, values: Mapping[str, float], seconds_left: float) -> None:
        """After a logged step."""
        text = f"{described(values)}  {clock(seconds_left)} left"
        self._bar.update(self._task, completed=step, values=text)

    def say(self, text: str) -> None:
        """A line that stays, above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leaves the bar as it is and the cursor below it."""
        self._bar.stop()


def described(values: Mapping[str, float]) -> str:
    """Numbers as a person reads them.

    >>> described({"loss": 2.51234, "learning_rate": 1e-05, "tokens_per_second": 6789.1})
    'loss 2.512  learning rate 1e-05  tokens per second 6,789'
    """

    def number(value: float) -> str:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

    return "  ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in values.items())


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any.

    >>> clock(61), clock(3600)
    ('1:01', '1:00:00')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
