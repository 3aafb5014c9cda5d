r"""Sends a server the commands of a file, in parts, and prints a digest of all its replies.

usage: ask.py SOCKET [FILE LAST REPLY]. Each part ends with the command LAST, and its replies end
with REPLY (`\r` and `\n` are written so). Without a file it only says if the server listens.
It reads while it sends, because a server may stop reading commands until its replies are read.
"""

import contextlib
import hashlib
import select
import socket
import sys
from pathlib import Path

_PIECE = 1 << 16
_SILENT_S = 60


def ask(connection: socket.socket, commands: bytes, done: bytes) -> bytes:
    """Returns the replies to `commands`; the last one is the reply to `done`."""
    left, reply = memoryview(commands), bytearray()
    while left or not reply.endswith(done):
        readable, writable, _ = select.select(
            [connection], [connection] if left else [], [], _SILENT_S
        )
        if not readable and not writable:
            sys.exit("the server is silent")
        if writable:
            with contextlib.suppress(BlockingIOError):
                left = left[connection.send(left[:_PIECE], socket.MSG_DONTWAIT) :]
        if readable:
            part = connection.recv(1 << 20)
            if not part:
                sys.exit("the server closed the connection")
            reply += part
    return bytes(reply)


def main(path: str, file: str = "", last: str = "", reply: str = "") -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError as error:
            sys.exit(f"{path}: {error.strerror}")
        if not file:
            return
        end, done = (word.encode().decode("unicode_escape").encode() for word in (last, reply))
        digest = hashlib.sha256()
        for part in Path(file).read_bytes().split(end)[:-1]:
            digest.update(ask(connection, part + end, done))
        print(digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
