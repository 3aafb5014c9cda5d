#!/usr/bin/env python3
"""Redis: a server and its benchmark, three times, with the data a plain server has."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from preload import LIBRARY, ROUNDS, PreloadTest, count, environment, main, program, run

LOAD = b"".join(b"set key:%d %s\nrpush list:%d a%d b c\nhset hash:%d f%d %d\nzadd z %d m%d\n"
                % (i, b"v" * (i % 3000), i % 50, i, i % 40, i, i, i, i) for i in range(3000))
LOAD += b"eval 'local s=0 for i=1,100000 do s=s+#tostring(i) end return s' 0\n"
QUERIES = [["dbsize"], ["debug", "digest"], ["lrange", "list:7", "0", "-1"], ["strlen", "key:2999"],
           ["zcount", "z", "100", "200"]]


class Server:
    """A server on a socket in a folder of its own, ended when the block ends."""

    def __init__(self, preload: bool) -> None:
        self.preload = preload
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.socket = self.folder / "socket"

    def __enter__(self) -> "Server":
        command = [program("redis-server"), "--port", "0", "--unixsocket", str(self.socket),
                   "--dir", str(self.folder), "--save", "", "--enable-debug-command", "yes"]
        self.errors = (self.folder / "errors").open("wb")
        self.process = subprocess.Popen(command, env=environment(self.preload),
                                        stdout=subprocess.DEVNULL, stderr=self.errors)
        end = time.monotonic() + 20
        while not self.socket.exists() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_ours(self) -> bool:
        maps = Path(f"/proc/{self.process.pid}/maps").read_text(encoding="utf-8")
        return os.path.realpath(LIBRARY) in maps

    def ask(self, *words: str, stdin: bytes = b""):
        return run([program("redis-cli"), "-s", self.socket, *words], preload=self.preload,
                   stdin=stdin)


class Redis(PreloadTest):
    def answers(self, preload: bool) -> list[bytes]:
        program("redis-benchmark")
        program("redis-cli")
        with Server(preload) as server:
            self.assertIsNone(server.process.poll(), "the server did not start")
            self.assertEqual(server.is_ours(), preload)
            self.assert_good(server.ask(stdin=LOAD))
            answers = [server.ask(*query).out for query in QUERIES]
            self.benchmark(server)
            self.assertEqual(server.ask("bgsave").status, 0)
            self.wait_for_save(server)
            self.assertEqual(server.ask("ping").out, b"PONG\n")
            server.ask("shutdown", "nosave")
            self.assertEqual(server.process.wait(20), 0)
            return answers

    def benchmark(self, server: Server) -> None:
        tests = "set,get,lpush,rpop,sadd,hset,zadd,lrange_100"
        result = run([program("redis-benchmark"), "-s", server.socket, "-q", "-n", "20000",
                      "-r", "2000", "-d", "200", "-c", "30", "-P", "8", "-t", tests],
                     preload=server.preload, timeout=100)
        self.assert_good(result)
        self.assertGreaterEqual(result.out.count(b"requests per second"), 8)
        if server.preload:
            self.assert_served(result)

    def wait_for_save(self, server: Server) -> None:
        for _ in range(100):
            state = server.ask("info", "persistence").out
            if b"rdb_bgsave_in_progress:0" in state:
                break
            time.sleep(0.1)
        self.assertIn(b"rdb_last_bgsave_status:ok", state)

    def test_server_and_benchmark(self) -> None:
        expected = self.answers(preload=False)
        for _ in range(ROUNDS):
            self.assertEqual(self.answers(preload=True), expected)
            count(len(expected))


if __name__ == "__main__":
    main()
