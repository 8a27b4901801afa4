"""What a task packs of its rows for the dependency graph, and how a pack is cut."""

from collections import Counter

import numpy as np
import pytest

from checkers.external_tables import RW, WR, WW
from checkers.histories import packs
from checkers.histories.packs import FOLLOWED, LINES, READ, Pack, cut, edges_of, make_pack
from checkers.histories.records import OperationRows, make_records
from harness.record.history_form import FAIL, OK, OPEN
from tests.support.micro import micro_table, poll_row, send_row


def test_edges_follow_from_versions_and_their_readers() -> None:
    rows = OperationRows(
        micro_table(send_row(1, 5, 0, run=2), send_row(3, 6, 4, run=2), poll_row(4, 5, 0, run=2))
    )
    edges = edges_of(make_pack(rows, make_records(rows)))
    pairs = {
        kind: [(a % LINES, b % LINES) for a, b in zip(e.src, e.dst, strict=True)] for kind, e in edges.items()
    }
    assert pairs == {WR: [(1, 4)], WW: [(1, 3)], RW: [(4, 3)]}
    assert all((e.src // LINES == 2).all() for e in edges.values())


def test_an_open_operation_wrote_the_version_that_was_read() -> None:
    rows = OperationRows(
        micro_table(
            send_row(1, 5, 0),
            send_row(3, 6, None, OPEN),
            send_row(7, 9, None, OPEN),
            poll_row(4, 6, 4),
            poll_row(5, 5, 0),
        )
    )
    assert {kind: len(e.src) for kind, e in edges_of(make_pack(rows, make_records(rows))).items()} == {
        WR: 2, WW: 1, RW: 1
    }  # fmt: skip


def test_a_record_has_its_lowest_offset_or_none() -> None:
    rows = OperationRows(
        micro_table(send_row(1, 5, 7), poll_row(3, 5, 4), send_row(4, 6, None), poll_row(6, 8, 0))
    )
    pack = make_pack(rows, make_records(rows))
    assert dict(zip(pack.value.tolist(), pack.offset.tolist(), strict=True)) == {5: 4, 6: -1, 8: 0}


def a_pack(seed: int) -> Pack:
    """Rows of two keys. Some records were not sent, some have an open operation, and some were polled several times."""
    rng = np.random.default_rng(seed)
    sends = [
        send_row(3 * n + 1, n, 2 * n, int(rng.choice([OK, FAIL, OPEN])), key=n % 2)
        for n in range(20)
        if rng.random() < 0.9
    ]
    polls = [
        poll_row(3 * n + 200 + who, n, 2 * n, int(rng.choice([OK, FAIL])), key=n % 2)
        for n in range(20)
        for who in range(int(rng.integers(0, 4)))
    ]
    rows = OperationRows(micro_table(*sends, *polls))
    return make_pack(rows, make_records(rows))


def contents(pack: Pack) -> Counter[tuple[object, ...]]:
    """All results of a pack: its edges with their records and next versions, and the reads."""
    counts: Counter[tuple[object, ...]] = Counter()
    for kind, edges in edges_of(pack).items():
        for src, dst, at in zip(edges.src, edges.dst, edges.record, strict=True):
            following = pack.value[at + 1] if pack.flags[at] & FOLLOWED else None
            counts[kind, src, dst, pack.key[at], pack.value[at], pack.offset[at], following] += 1
    for at in np.flatnonzero(pack.flags & READ):
        counts["read", pack.writer[at], pack.key[at], pack.value[at], pack.offset[at]] += 1
    return counts


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_pack_have_the_same_edges_as_the_pack(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    whole = a_pack(seed)
    assert {kind for kind, *_ in contents(whole)} == {WR, WW, RW, "read"}
    assert len(list(cut(whole))) == 1
    for most in (1, 2, 3, 7):
        monkeypatch.setattr(packs, "PACKED", most)
        parts = list(cut(whole))
        assert len(parts) > 2
        assert sum(map(contents, parts), Counter()) == contents(whole)
