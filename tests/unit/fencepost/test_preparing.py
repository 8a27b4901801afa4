"""Which image the brokers of a run are looked for in, by the faults that it asks for."""

import pytest

from fencepost.commands.options import settle
from fencepost.runs.preparing import image_choice
from harness.settings.options import Options


@pytest.mark.parametrize(
    ("nemesis", "image", "chosen"),
    [
        ("drop-packets", "auto", "bundled"),
        ("kill-broker,drop-packets", "auto", "bundled"),
        ("disconnect-broker", "auto", "auto"),
        ("none", "auto", "auto"),
        (None, "auto", "auto"),
        ("drop-packets", "mine:1", "mine:1"),  # its label says whether it will do
    ],
)
def test_packets_are_dropped_in_an_image_that_can(nemesis: str | None, image: str, chosen: str) -> None:
    faults = None if nemesis is None else tuple(nemesis.split(","))
    said: list[str] = []
    options = settle(Options(cluster="docker", image=image, nemesis=faults))
    assert image_choice(options, said.append) == chosen
    assert [line for line in said if "iptables" in line] == said and len(said) == (chosen != image)
