"""Prints how many cases ran, for the calling tool. With none, pytest itself fails (status 5)."""


def pytest_terminal_summary(terminalreporter):
    ran = [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]
    terminalreporter.write_line(f"cases: {len(ran)}")
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(f"skipped: {len(skipped)}")
    for reason in {report.longrepr[2] for report in skipped}:
        terminalreporter.write_line(reason)
