"""The container image of a run depends on its faults."""

import pytest

from fencepost.runs.preparing import image_choice


@pytest.mark.parametrize(
    ("faults", "image", "expected"),
    [
        ({"drop-packets"}, "auto", "bundled"),
        ({"kill-broker", "drop-packets"}, "auto", "bundled"),
        ({"disconnect-broker"}, "auto", "auto"),
        (set(), "auto", "auto"),
        ({"drop-packets"}, "mine:1", "mine:1"),  # its label says whether it has iptables
    ],
)
def test_drop_packets_chooses_an_image_with_iptables(faults: set[str], image: str, expected: str) -> None:
    messages: list[str] = []
    assert image_choice(image, faults, messages.append) == expected
    assert [line for line in messages if "iptables" in line] == messages and len(messages) == (
        expected != image
    )
