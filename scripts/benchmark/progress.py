"""A bar on the terminal: which line is measured, what it is doing, and when all will be done."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from mayfly.clock import monotonic

REFRESHES_PER_SECOND = 2  # drawing takes CPU, and there is somebody who measures


class Bar:
    """Counts in seconds as they were estimated; quiet where stderr is no terminal."""

    def __init__(self, total_seconds: float, lines: int) -> None:
        console = Console(stderr=True)
        self._progress = RichProgress(
            TextColumn("{task.fields[number]}/{task.fields[lines]} {task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("about {task.fields[left]} left"),
            TextColumn("[dim]{task.fields[doing]}"),
            console=console,
            disable=not console.is_terminal,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        self._task = self._progress.add_task(
            "", total=total_seconds, lines=lines, number=0, doing="", left=duration(total_seconds)
        )
        self._total, self._before, self._estimate, self._number = total_seconds, 0.0, 0.0, 0
        self._began = monotonic()

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, title: str, estimate: float) -> None:
        """The next line, whatever the last one has really taken."""
        self._before += self._estimate
        self._estimate, self._began = estimate, monotonic()
        self._number += 1
        self._progress.update(self._task, description=title, number=self._number)
        self.say("starting the database")

    def say(self, doing: str) -> None:
        self._progress.update(self._task, doing=doing)
        self.tick()

    def tick(self) -> None:
        spent = min(monotonic() - self._began, self._estimate * 0.99)
        done = self._before + spent
        self._progress.update(self._task, completed=done, left=duration(self._total - done))


def duration(seconds: float) -> str:
    """For people: to the minute, or to ten seconds below two minutes."""
    if seconds < 120:
        return f"{max(10, round(seconds, -1)):.0f} s"
    return f"{seconds / 60:.0f} min"
