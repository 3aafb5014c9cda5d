#!/usr/bin/env python3
"""Servers of Debian run under the profiler: they answer as they do without it, and the profile that
they leave names the code that made the memory which the clients caused.

Redis and PostgreSQL write their titles over their environment, where the profile's name was.
"""

from pathlib import Path
from typing import TypeVar

import servers
from preload import PreloadTest, count, main
from servers import HELD, REQUESTS, SQL, Server

OPTIONS = {"NEARMALLOC_PROFILE": "on", "NEARMALLOC_PROFILE_FORMAT": "collapsed",
           "NEARMALLOC_PROFILE_INTERVAL": "8192", "NEARMALLOC_PROFILE_FILE": "FOLDER/profiles/%p"}

Kind = TypeVar("Kind", bound=Server)


def share(profile: str, name: str) -> int:
    """The bytes of the stacks that have a function of this name."""
    lines = [line.rsplit(" ", 1) for line in profile.splitlines()]
    return sum(int(size) for stack, size in lines if name in stack.split(";"))


def wrote_over_it(pid: int) -> bool:
    """The memory where the process got its environment does not have the profile's name now."""
    try:
        return b"PROFILE_FILE=" not in Path(f"/proc/{pid}/environ").read_bytes()
    except ProcessLookupError:  # it has just ended
        return True


class ProfiledServer(PreloadTest):
    def start(self, kind: type[Kind]) -> Kind:
        """A server under the profiler."""
        server = kind(**OPTIONS)
        (server.folder / "profiles").mkdir()
        return server

    def stop(self, server: Server) -> str:
        """The profile of a server after its normal end."""
        pid = server.pid
        self.assertEqual(server.stop(), 0, server.said())
        self.assertNotIn("nearmalloc:", server.said())
        count()
        return self.profile(server, pid)

    def profile(self, server: Server, pid: int) -> str:
        return (server.folder / "profiles" / str(pid)).read_text(encoding="utf-8")

    def assert_shown(self, profile: str, name: str, least: int, most: int) -> None:
        found = share(profile, name)
        self.assertLess(0.75 * least, found, f"{name} made {found} bytes")
        self.assertLess(found, 1.25 * most, f"{name} made {found} bytes")
        count()


class Redis(ProfiledServer):
    def test_redis(self) -> None:
        with self.start(servers.Redis) as server:
            self.assertTrue(wrote_over_it(server.pid), "this Redis keeps its environment")
            server.load()
            profile = self.stop(server)
        # A value is copied from a buffer that the connection reads into.
        self.assert_shown(profile, "readQueryFromClient", HELD, 4 * HELD)
        self.assert_shown(profile, "main", HELD, 20 * HELD)


class PostgreSQL(ProfiledServer):
    def test_postgresql(self) -> None:
        with self.start(servers.PostgreSQL) as server:
            first = int(server.ask_each("select 1")[0])
            lines = server.ask_each(SQL)
            self.assertEqual(lines[-2:], [f"{REQUESTS}|{HELD}", f"{HELD}"])
            others = server.pids()[1:]
            self.assertGreaterEqual(len(others), 3, "the writers and the launcher")
            self.assertTrue(all(map(wrote_over_it, others)), "PostgreSQL keeps its environment")
            main_profile = self.stop(server)
            self.assertTrue(self.profile(server, first))
            # Each connection has a process of its own. It began with what the main process had.
            backend = self.profile(server, int(lines[0]))
        self.assert_shown(main_profile, "PostmasterMain", 100_000, 50_000_000)
        # string_agg makes one string, in a buffer that doubles.
        self.assert_shown(backend, "PostgresMain", 2 * HELD, 30 * HELD)


class Interpreters(ProfiledServer):
    def profile_of(self, kind: type[Server]) -> str:
        with self.start(kind) as server:
            server.load()
            return self.stop(server)

    def test_python(self) -> None:
        profile = self.profile_of(servers.Python)
        self.assert_shown(profile, "PyBytes_FromStringAndSize", 0, 3 * HELD)
        self.assert_shown(profile, "_PyEval_EvalFrameDefault", HELD, 10 * HELD)

    def test_node(self) -> None:
        profile = self.profile_of(servers.Node)
        # Its main function is on the stacks, below code that was compiled while it ran.
        self.assert_shown(profile, "_ZN4node5StartEiPPc", HELD, 20 * HELD)


class Static(ProfiledServer):
    def test_a_static_program(self) -> None:
        """Its functions have no names until a tool reads its file: the dynamic linker has none."""
        with self.start(servers.Static) as server:
            server.load()
            profile = self.stop(server)
        sizes = [int(line.rsplit(" ", 1)[1]) for line in profile.splitlines()]
        self.assertLess(0.75 * HELD, max(sizes))
        self.assertLess(max(sizes), 1.25 * HELD)
        self.assertIn("static_server+0x", profile)
        count()


if __name__ == "__main__":
    main()
