#!/usr/bin/env python3
"""Redis reports the memory of nearmalloc, though Debian's asks jemalloc for the numbers."""

from pathlib import Path

from preload import PreloadTest, count, main
from servers import Redis

FILL = "for i = 1, 50000 do redis.call('set', 'key:' .. i, string.rep('v', 4000)) end"
MIB = 1 << 20


class RedisMemory(PreloadTest):
    def memory_of(self, server: Redis) -> dict[str, str]:
        lines = server.ask("info", "memory").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def test_memory_is_what_the_allocator_has(self) -> None:
        with Redis() as server:
            if "jemalloc" not in self.memory_of(server)["mem_allocator"]:
                self.skipTest("this Redis does not ask jemalloc")
            server.ask("eval", FILL, "0")
            self.wait_for_cron(server)
            memory = self.memory_of(server)
            allocated, active, resident = (int(memory[f"allocator_{what}"])
                                           for what in ("allocated", "active", "resident"))
            used = int(memory["used_memory"])
            self.assertGreater(used, 190 * MIB)
            self.assertLess(abs(allocated - used), used // 10, str(memory))
            self.assertLessEqual(allocated, active)
            self.assertLess(active, 1.1 * allocated, str(memory))
            self.assertLessEqual(active, resident)
            self.assertLess(float(memory["allocator_rss_ratio"]), 1.1, str(memory))
            self.assertLess(float(memory["rss_overhead_ratio"]), 1.1, str(memory))
            self.assertIn(b"can't find any memory issue", server.ask("memory", "doctor"))
            self.assertIn(b"KiB in spans", server.ask("memory", "malloc-stats"))
            count(5)
            self.check_flush(server, allocated)

    def wait_for_cron(self, server: Redis) -> None:
        """The numbers are renewed ten times a second."""
        server.ask("blpop", "nothing", "0.5")

    def check_flush(self, server: Redis, allocated: int) -> None:
        server.ask("flushall", "sync")
        self.assertEqual(server.ask("memory", "purge").strip(), b"OK")
        self.wait_for_cron(server)
        memory = self.memory_of(server)
        self.assertLess(int(memory["allocator_allocated"]), allocated // 20)
        self.assertLess(int(memory["allocator_resident"]), allocated // 5)
        resident = Path(f"/proc/{server.pid}/statm").read_text(encoding="ascii").split()[1]
        self.assertLess(int(resident) * 4096, allocated // 2)
        count(3)


if __name__ == "__main__":
    main()
