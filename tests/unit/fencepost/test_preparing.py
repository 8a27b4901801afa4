"""The container image of a run depends on its faults."""

import pytest

from fencepost.commands.options import settle
from fencepost.runs.preparing import image_choice
from harness.settings.options import Options


@pytest.mark.parametrize(
    ("nemesis", "image", "expected"),
    [
        ("drop-packets", "auto", "bundled"),
        ("kill-broker,drop-packets", "auto", "bundled"),
        ("disconnect-broker", "auto", "auto"),
        ("none", "auto", "auto"),
        (None, "auto", "auto"),
        ("drop-packets", "mine:1", "mine:1"),  # its label says whether it has iptables
    ],
)
def test_drop_packets_chooses_an_image_with_iptables(nemesis: str | None, image: str, expected: str) -> None:
    faults = None if nemesis is None else tuple(nemesis.split(","))
    messages: list[str] = []
    options = settle(Options(cluster="docker", image=image, nemesis=faults))
    assert image_choice(options, messages.append) == expected
    assert [line for line in messages if "iptables" in line] == messages and len(messages) == (
        expected != image
    )
