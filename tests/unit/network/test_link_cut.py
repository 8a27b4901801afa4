"""A cut is proven by a link that was in use, is silent, and leads to a broker that answers."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from harness.network.proxied import LinkCut


@dataclass
class Links:
    passing: set[str] = field(default_factory=set)
    answering: set[str] = field(default_factory=set)
    stands: dict[str, int] = field(default_factory=dict)

    def passes(self, link: str) -> bool:
        return link in self.passing

    def reaches(self, link: str) -> bool:
        return link in self.answering

    def connections(self, links: Iterable[str]) -> dict[str, int]:
        return {link: self.stands.get(link, 0) for link in links}


@pytest.mark.parametrize(
    ("links", "stood", "proven"),
    [
        (Links(answering={"a", "b"}), {"a": 2, "b": 0}, ["a"]),  # b was not in use
        (Links(answering={"b"}), {"a": 2, "b": 1}, ["b"]),  # what is behind a is down, and answers nobody
        (Links(answering=set()), {"a": 2, "b": 1}, []),
        (Links(passing={"b"}, answering={"a", "b"}), {"a": 2, "b": 1}, []),  # it leaks
        (Links(answering={"a", "b"}), {"a": 0, "b": 0}, []),
        (
            Links(answering={"a", "b"}, stands={"b": 1}),
            {"a": 0, "b": 0},
            ["b"],
        ),  # somebody came after it was cut
        (Links(answering={"a"}, stands={"b": 1}), {"a": 0, "b": 0}, []),  # and found nobody behind it
    ],
)
def test_what_proves_a_cut(links: Links, stood: dict[str, int], proven: list[str]) -> None:
    told = LinkCut(links, ["a", "b"], stood).evidence()
    assert [part.partition(":")[0] for part in told.split("; ") if part] == proven


def test_it_says_when_the_link_was_used() -> None:
    links = Links(answering={"a", "b"}, stands={"a": 1, "b": 1})
    before, after = LinkCut(links, ["a", "b"], {"a": 2, "b": 0}).evidence().split("; ")
    assert before.startswith("a: 2 connections stood when it was cut, ")
    assert after.startswith("b: 1 connection stood, made after it was cut, ")
