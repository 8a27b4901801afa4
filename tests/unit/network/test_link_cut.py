"""A cut is proven by a link that was in use, is silent, and leads to a broker that answers."""

from dataclasses import dataclass, field

import pytest

from harness.network.proxied import LinkCut


@dataclass
class Links:
    passing: set[str] = field(default_factory=set)
    answering: set[str] = field(default_factory=set)

    def passes(self, link: str) -> bool:
        return link in self.passing

    def reaches(self, link: str) -> bool:
        return link in self.answering


@pytest.mark.parametrize(
    ("links", "stood", "proven"),
    [
        (Links(answering={"a", "b"}), {"a": 2, "b": 0}, ["a"]),  # b was not in use
        (Links(answering={"b"}), {"a": 2, "b": 1}, ["b"]),  # what is behind a is down, and answers nobody
        (Links(answering=set()), {"a": 2, "b": 1}, []),
        (Links(passing={"b"}, answering={"a", "b"}), {"a": 2, "b": 1}, []),  # it leaks
        (Links(answering={"a", "b"}), {"a": 0, "b": 0}, []),
    ],
)
def test_what_proves_a_cut(links: Links, stood: dict[str, int], proven: list[str]) -> None:
    told = LinkCut(links, ["a", "b"], stood).evidence()
    assert [part.partition(":")[0] for part in told.split("; ") if part] == proven
