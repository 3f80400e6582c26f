"""`corral ask` without a question: a prompt with a history, answers that come as they are made, choices by number."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.ask_background import Background
from actors.ask_lines import HELP, HelpLine, HistoryLine, QuitLine, ReviewLine, ThinkLine, WrongLine, parse_line, typed
from actors.ask_view import TerminalView, clean
from actors.asking import AskError, Asking
from sqlassist.messages import Question, Refusal

PROMPT = "? "
MOST_LINES = 1000  # of the prompt's history
MOST_SHOWN = 20  # questions of `\history`


def run_interactive(
    opened: Callable[[], AbstractAsyncContextManager[Asking]],
    console: Console,
    read_line: Callable[[str], str] = input,
) -> None:
    """Ask what is typed until the end of input.

    Args:
        opened: Opens the session.
        console: Where answers are shown.
        read_line: Gives a line for a prompt; raises `EOFError` at the end, and `KeyboardInterrupt` at Ctrl-C.

    Raises:
        AskError: the session cannot be opened.
    """
    background = Background(opened)
    with background as asking:
        console.print(Text(f"{clean(asking.whose)}. \\help tells what can be typed.", style="dim"))
        _Prompt(background, asking, console, read_line).run()


class _Prompt:
    def __init__(
        self, background: Background[Asking], asking: Asking, console: Console, read_line: Callable[[str], str]
    ) -> None:
        self._background = background
        self._asking = asking
        self._console = console
        self._read_line = read_line
        self._view = TerminalView(console)
        self._last = ""
        self._count = 0
        self._think: bool | None = None

    def run(self) -> None:
        while True:
            try:
                text = typed(self._read_line(PROMPT))
            except EOFError:
                self._console.print()
                return
            except KeyboardInterrupt:
                self._console.print()
                continue
            choices = self._view.seen.choices
            new_id = f"q{self._count + 1}"
            line = parse_line(text, new_id, last=self._last, choices=choices, think=self._think)
            if isinstance(line, QuitLine):
                return
            if line is not None:
                try:
                    self._do(line)
                except KeyboardInterrupt:
                    self._console.print(Text("cancelled", style="dim"))
                except AskError as error:
                    self._console.print(Text(clean(error), style="red"))

    def _do(self, line: object) -> None:
        match line:
            case Question():
                self._count += 1
                self._view.begin()
                self._last = line.id
                self._background.run(partial(self._asking.ask, line, self._view.take))
            case ReviewLine(of, text):
                answer = self._background.run(partial(self._asking.review, of, text, ""))
                told = str(answer) if isinstance(answer, Refusal) else f"taken down as {answer}"
                self._console.print(Text(clean(told), style="dim"))
            case ThinkLine(think):
                self._think = think
            case HistoryLine():
                self._history()
            case HelpLine():
                self._console.print(HELP, markup=False, highlight=False)
            case WrongLine(message):
                self._console.print(Text(clean(message), style="yellow"))

    def _history(self) -> None:
        table = Table(box=None, show_header=False)
        for entry in self._background.run(partial(self._asking.history, MOST_SHOWN)):
            table.add_row(*(Text(clean(entry.get(key, ""))) for key in ("at", "stage", "text")))
        self._console.print(table)


class LineHistory:
    """The stdlib's readline with a history file of its own, for as long as the block lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readline: Any = None

    def __enter__(self) -> None:
        """Without readline, or without its file, there is just no history."""
        try:
            import readline  # noqa: PLC0415  # not every Python has it, and it changes `input` for the whole process
        except ImportError:
            return
        self._readline = readline
        readline.set_history_length(MOST_LINES)
        with suppress(OSError):
            readline.read_history_file(self._path)

    def __exit__(self, *_: object) -> None:
        if self._readline is None:
            return
        with suppress(OSError):  # a home that cannot be written is no reason to end with an error
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._readline.write_history_file(self._path)


def history_path() -> Path:
    """Where lines typed at the prompt are kept."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "corral" / "ask_history"
