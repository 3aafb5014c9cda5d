"""The means of a result on a terminal: a table for each group of rows, with intervals."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearlab.report import tables
from nearlab.report.analysis import TIME, Analysis
from nearlab.results.record import ORIGINS, Record, RecordError

_MEMORY = "memory: the peak above that of an empty process; heaps under 4 MiB are in no mean"


def show(out: Console, record: Record) -> None:
    """Prints the ranks of each group; nothing if there is nothing to compare."""
    try:
        analysis = Analysis(record)
    except RecordError:
        return
    if len(analysis.compared) < 2:
        return
    for origin in analysis.origins:
        found = tables.ranks(analysis, origin)
        told = analysis.told(analysis.common(TIME, origin))
        title = f"{ORIGINS[origin]}: geometric means over {told}"
        table = Table(title=title, title_justify="left", caption=_MEMORY, caption_justify="left")
        for word in found.heading:
            table.add_column(word)
        for row in found.rows:
            table.add_row(*map(escape, row))
        out.print(table)
