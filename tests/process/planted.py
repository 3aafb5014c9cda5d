#!/usr/bin/env python3
"""Three faults are planted in a running Redis, among the traffic of its benchmark, and each is
found as docs/profile.md says ("Tried").
"""

import html
import re

import servers
from preload import PROGRAMS, PreloadTest, count, main, program, run
from servers import LEAKED, starts

PROFILE = starts("profile", "--out", "FOLDER/page.html")
LEAKS = starts("leaks")


class Redis(servers.Redis):
    """It loads modules at run time."""

    def command(self) -> list[str]:
        return [*super().command(), "--enable-module-command", "yes"]


def section(page: str, measure: str) -> list[list[str]]:
    """The rows of a table of the page; the first column begins with the name of the function."""
    text = page.split(f'<h2 id="{measure}">')[1].split("<h2")[0].split("<tbody>")[1]
    rows = [re.sub(r"<ol>.*?</ol>", "", row, flags=re.DOTALL) for row in text.split("<tr>")[1:]]
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip()
             for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)] for row in rows]


class Planted(PreloadTest):
    def traffic(self, server: Redis) -> None:
        """The module is loaded at run time; most of the traffic has no fault."""
        module = PROGRAMS / "libredis_faults.so"
        self.assertEqual(server.ask("module", "load", str(module)), b"OK\n")
        benchmark = [program("redis-benchmark"), "-s", server.socket, "-q", "-c", "20", "-P", "8"]
        for words in (["-n", "20000", "-r", "2000", "-d", "200", "-t", "set,get,lpush,hset"],
                      ["-n", "20000", "-r", "500", "faults.login", "user:__rand_int__"],
                      ["-n", "100000", "faults.log", "x" * 400],
                      ["-n", "2000", "-r", "500", "faults.buffer", "__rand_int__"]):
            self.assert_good(run([*benchmark, *words], preload=False))

    def test_the_page_names_each_fault(self) -> None:
        with Redis(tool=PROFILE) as server:
            self.traffic(server)
            self.assertEqual(server.stop(), 0, server.said())
            page = (server.folder / "page.html").read_text()
            said = server.said()
        stands_out = re.findall(r"<li>(.*?)</li>", page.split("<h2>Stacks</h2>")[0])
        for name, measure, words in (("open_session", "leaks", "open_session leaks about"),
                                     ("grow_buffer", "waste", "grow_buffer takes 65,536 bytes: "),
                                     ("make_record", "remote", "what make_record allocates is")):
            rows = section(page, measure)
            self.assertRegex(rows[0][0], rf"^{name} .*redis_faults\.c:\d+ by z\w*alloc", measure)
            self.assertTrue(any(words in each for each in stands_out), f"{words}: {stands_out}")
            count()
        leak, waste, remote = (section(page, each)[0] for each in ("leaks", "waste", "remote"))
        self.assertEqual(leak[-1], "high")
        self.assertEqual(waste[-2:], ["32.2 KiB", "64.0 KiB"])
        self.assertRegex(remote[-1], r"^(no heap|heap \d+): [\d.]+ MiB$")
        self.assertIn("live: open_session  ", said)

    def test_the_report_of_leaks_names_the_leak(self) -> None:
        with Redis(tool=LEAKS) as server:
            self.traffic(server)
            self.assertEqual(server.stop(), LEAKED, server.said())
            report = server.said().split("near: ")[1]
        first = report.split("  about ")[1]
        self.assertRegex(first, r"(?m)^    open_session  \S*/redis_faults\.c:\d+$")
        self.assertIn("nothing points to them", first)
        for name in ("make_record", "grow_buffer"):
            self.assertNotIn(name, report)
        count()


if __name__ == "__main__":
    main()
