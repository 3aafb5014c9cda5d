"""The file of the counting plugin is read, summed and validated. No QEMU is needed."""

import copy
import json

import pytest

from nearvm import counts

NOTHING = {"loads": 0, "stores": 0, "misses": 0, "bounces": 0, "upgrades": 0}


def events(loads: int, stores: int = 0, misses: int = 0, bounces: int = 0, upgrades: int = 0):
    numbers = (loads, stores, misses, bounces, upgrades)
    return dict(zip(NOTHING, numbers, strict=True))


def cpu(heap: dict, excluded: dict | None = None, pages: int = 1) -> dict:
    return {"pages_4k": pages, "pages_2m": 1, "heap": heap, "excluded": excluded or {}}


# CPUs 0 and 1 are on node 0, CPU 2 is on node 4; node 7 has memory only.
FILE = {
    "format": 1,
    "exited": True,
    "cache": {"kib": 256, "ways": 8, "line": 64},
    "cpus": {"0": 0, "1": 0, "2": 4},
    "calibration": {
        "nodes": {"0": {"samples": 9, "first": 0, "last": 99}},
        "conflicts": 0,
        "wrong_cpus": 0,
    },
    "malformed": 0,
    "regions": [
        {
            "complete": True,
            "excluded_pages": 5,
            "pages_4k": 12,
            "pages_2m": 2,
            "remote_pages": [[4096, 30], [8192, 6]],
            "cpus": {
                "0": cpu({"0": events(1000, 500, 30, 3, 1), "4": events(20, 10, 7, 2)}, pages=8),
                "1": cpu({"0": events(4000), "7": events(5, 0, 4)}, {"4": events(77)}, pages=6),
                "2": cpu({"4": events(900, 100, 11), "0": events(1), "unknown": events(2, 1)}),
            },
        }
    ],
}


def changed(**keys) -> str:
    return json.dumps(FILE | keys)


def with_region(**keys) -> str:
    return changed(regions=[FILE["regions"][0] | keys])


def test_accesses_are_local_remote_or_unknown():
    sums = counts.parse(json.dumps(FILE)).sums()
    assert (sums.local, sums.remote, sums.unknown) == (1500 + 4000 + 1000, 30 + 5 + 1, 3)
    assert (sums.local_misses, sums.remote_misses) == (30 + 11, 7 + 4)
    assert (sums.bounces, sums.upgrades) == (5, 1)
    assert sums.accesses == 6539


def test_excluded_memory_is_apart():
    sums = counts.parse(json.dumps(FILE)).sums(kind="excluded")
    assert (sums.local, sums.remote) == (0, 77)


def test_pages_are_those_of_all_and_the_sum_of_each():
    pages = counts.parse(json.dumps(FILE)).pages()
    assert (pages.all_4k, pages.cpus_4k) == (12, 8 + 6 + 1)
    assert (pages.all_2m, pages.cpus_2m) == (2, 3)


def test_the_matrix_adds_up():
    found = counts.parse(json.dumps(FILE))
    matrix = found.matrix()
    assert matrix[0, "0"] == 5500 and matrix[0, "4"] == 30 and matrix[4, "unknown"] == 3
    assert sum(matrix.values()) == found.sums().accesses


def test_the_pages_that_others_accessed_are_named():
    assert counts.parse(json.dumps(FILE)).regions[0].remote_pages == [(4096, 30), (8192, 6)]


def test_regions_are_told_apart():
    second = copy.deepcopy(FILE["regions"][0])
    second["cpus"]["0"]["heap"]["4"]["loads"] += 100
    found = counts.parse(changed(regions=[FILE["regions"][0], second]))
    assert found.sums(1).remote == found.sums(0).remote + 100


@pytest.mark.parametrize(
    "text,message",
    [
        ("{", "not JSON"),
        ("[]", "the whole: "),
        (changed(format=2), "format: "),
        (changed(more=1), "more: "),
        (changed(calibration=FILE["calibration"] | {"nodes": {}}), "not calibrated"),
        (changed(calibration=FILE["calibration"] | {"conflicts": 2}), "2 pages contradict"),
        (changed(calibration=FILE["calibration"] | {"wrong_cpus": 1}), "1 CPUs are not on"),
        (changed(malformed=3), "3 markers made no sense"),
        (changed(regions=[]), "no region was counted"),
        (with_region(cpus={"9": cpu({})}), "nobody knows the node of CPU 9"),
        (with_region(cpus={"0": cpu({"0": events(-1)})}), "regions.0.cpus.0.heap.0.loads"),
    ],
)
def test_counts_that_cannot_be_trusted_are_refused(text, message):
    with pytest.raises(counts.CountsError) as raised:
        counts.parse(text, "file")
    assert message in str(raised.value) and str(raised.value).startswith("file: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "keys,complaint",
    [
        ({"complete": False}, "region 1 did not come to its end"),
        (
            {"cpus": {"0": cpu({"unknown": events(1), "0": events(9999)})}},
            "region 1: no known node has 1 of 10000 accesses",
        ),
        ({"cpus": {"0": cpu({"0": events(9999)}, {"unknown": events(1)})}}, None),
        ({"cpus": {}}, None),
    ],
)
def test_one_region_may_be_useless_beside_others(keys, complaint):
    good = FILE["regions"][0] | {"cpus": {"0": cpu({"0": events(9)})}}
    found = counts.parse(changed(regions=[good, good | keys, good]))
    assert [found.complaint(number) for number in range(3)] == [None, complaint, None]


def test_a_file_that_is_missing_or_empty_is_named(tmp_path):
    with pytest.raises(counts.CountsError, match="did not start"):
        counts.read(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(counts.CountsError, match="QEMU was killed"):
        counts.read(tmp_path / "empty")


def test_a_file_is_read(tmp_path):
    (tmp_path / "counts").write_text(json.dumps(FILE))
    assert counts.read(tmp_path / "counts").sums().local == 6500
