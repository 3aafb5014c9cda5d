"""A Python program of the demo: threads build large dictionaries, walk them, and write JSON.

Invariant: the printed digest depends only on the arguments (fixed seeds, one digest per thread,
joined in order). The demo runs it as a child; it imports nothing of the lab.
"""

import hashlib
import json
import random
import sys
import threading

WORDS = [f"w{i:x}" * (1 + i % 5) for i in range(997)]


def make_text(rng, words):
    """A text of `words` words. Above 512 bytes Python calls malloc instead of using its pools."""
    return " ".join(rng.choices(WORDS, k=words))


def make_document(rng, key):
    """One nested record; most sizes are small, a few are large."""
    body = make_text(rng, rng.choice((4, 12, 60, 120, 200, 900)))
    words = body.split()
    return {
        "id": key,
        "title": f"document {key}",
        "body": body,
        "tags": words[: rng.randrange(1, 200)],
        "positions": {word: at for at, word in enumerate(words)},
    }


def walk(value):
    """Visits every leaf; returns the number of leaves and a checksum of them."""
    leaves = 0
    checksum = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        else:
            leaves += 1
            checksum += item if isinstance(item, int) else len(item)
    return leaves, checksum


def work(seed, documents, rounds, digests):
    """Keeps a store of documents; each round replaces a third and converts a quarter by JSON."""
    rng = random.Random(seed)
    digest = hashlib.sha256()
    store = {f"key-{i:08d}": make_document(rng, i) for i in range(documents)}
    for number in range(rounds):
        for i in rng.sample(range(documents), documents // 3):
            store[f"key-{i:08d}"] = make_document(rng, i + number)
        names = sorted(store)[number % 4 :: 4]
        text = json.dumps({name: store[name] for name in names})
        store.update(json.loads(text))
        lines = {name: json.dumps(store[name]) for name in names}
        digest.update(f"{len(text)} {walk(store)} {sum(map(len, lines.values()))}".encode())
    digest.update(json.dumps(store, sort_keys=True).encode())
    digests[seed] = digest.hexdigest()


def main():
    """Arguments: threads, documents per thread, rounds."""
    threads, documents, rounds = map(int, sys.argv[1:4])
    digests = {}
    workers = [
        threading.Thread(target=work, args=(seed, documents, rounds, digests))
        for seed in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if len(digests) != threads:
        sys.exit("a thread did not finish")
    print(hashlib.sha256(" ".join(digests[i] for i in range(threads)).encode()).hexdigest())


if __name__ == "__main__":
    main()
