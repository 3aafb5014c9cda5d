"""The live view: pictures of processes that share the height of a terminal.

Invariant: it has no more lines than it is given, and each process has its head before any has a
table.
"""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from nearmalloc_tools.top.view import History, Part, head, parts

_ROOMY = 40  # lines of a process that are worth blank lines before its tables
_FRAME = 2  # lines of a table without rows: its title and the names of its columns

_Lines = list[list[Segment]]


def shares(total: int, wants: list[int]) -> list[int]:
    """Equal shares of `total`. One that wants less leaves the rest to the others; what cannot be
    divided goes to the first."""
    given = [0] * len(wants)
    while total > 0:
        wanting = [index for index, want in enumerate(wants) if given[index] < want]
        if not wanting:
            break
        each = max(total // len(wanting), 1)
        for index in wanting[:total]:
            more = min(each, wants[index] - given[index])
            given[index] += more
            total -= more
    return given


@dataclass(frozen=True)
class Screenful:
    """The pictures of all processes, in the size that the terminal has when it is drawn."""

    histories: list[History]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or options.max_height
        shown = self.histories
        if len(shown) > height:
            shown = shown[: height - 1]
        pictures = [_Picture(each, console, options.update(height=None)) for each in shown]
        more = len(self.histories) - len(shown)
        heights = shares(height - (more > 0), [picture.wanted for picture in pictures])
        for picture, share in zip(pictures, heights, strict=True):
            for line in picture.lines(share):
                yield from line
                yield Segment.line()
        if more:
            words = f"and {more} more processes, for which the terminal is too low"
            yield Text(words, no_wrap=True, overflow="ellipsis")


class _Picture:
    """The picture of one process, in as many lines as it is given."""

    def __init__(self, history: History, console: Console, options: ConsoleOptions) -> None:
        self._console, self._options = console, options
        bars = options.max_width - head(history, 0).cell_len - 2
        self._head = self._drawn(head(history, bars))
        self._parts = parts(history)
        rows = sum(len(part.rows) for part in self._parts)
        self.wanted = len(self._head) + (1 + _FRAME) * len(self._parts) + rows

    def _drawn(self, piece: RenderableType) -> _Lines:
        return self._console.render_lines(piece, self._options, pad=False)

    def lines(self, share: int) -> _Lines:
        lines = self._head[:share]
        blank: _Lines = [[]] if share >= min(self.wanted, _ROOMY) else []
        for table in self._tables(share - len(lines), len(blank)):
            lines += blank + table
        return lines

    def _tables(self, room: int, blanks: int) -> list[_Lines]:
        """As many tables as fit with their first row; then rows share what is left."""
        chosen: list[Part] = []
        left = room
        for part in self._parts:
            needed = blanks + _FRAME + _least(part)
            if needed > left:
                break
            left -= needed
            chosen.append(part)
        more = shares(left, [len(part.rows) - _least(part) for part in chosen])
        counts = [
            _rows_in(part, _least(part) + extra)
            for part, extra in zip(chosen, more, strict=True)
        ]
        tables = [
            self._drawn(part.first(count)) for part, count in zip(chosen, counts, strict=True)
        ]
        # In a narrow terminal cells have several lines.
        while sum(blanks + len(table) for table in tables) > room:
            longest = max(range(len(tables)), key=lambda index: counts[index])
            if counts[longest] > 1:
                counts[longest] -= 1
                tables[longest] = self._drawn(chosen[longest].first(counts[longest]))
            else:
                del tables[-1], counts[-1]
        return tables


def _least(part: Part) -> int:
    """Lines for a row, and one that says how many more there are."""
    return min(len(part.rows), 2)


def _rows_in(part: Part, lines: int) -> int:
    """The rows that fit in the lines; the last line may have to say how many more there are."""
    return lines if lines >= len(part.rows) else lines - 1
