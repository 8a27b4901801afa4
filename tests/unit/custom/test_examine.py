"""The suggestions of `fencepost doctor --pipeline` for a file that a run accepts."""

from pathlib import Path

import pytest

from tests.support.user_pipeline import WITH_OUTPUTS, write_pipeline
from workloads.custom.examine import examine

pytestmark = pytest.mark.processes

GROUPED = WITH_OUTPUTS.replace('command = ["true"]', 'command = ["true"]\ngroup = "billing"')
COMPACTED = '\n[topics.invoices.config]\n"cleanup.policy" = "compact,delete"\n'


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (GROUPED, False),
        (GROUPED + COMPACTED, True),
        (GROUPED.replace("[expect]", '[expect]\nfinal = ["invoices"]') + COMPACTED, False),
        (GROUPED.replace('[expect]\noutputs = "expect.py:outputs"\n', "") + COMPACTED, False),
    ],
    ids=["plain", "compacted", "compacted and final", "compacted and not checked"],
)
def test_a_compacted_topic_whose_every_record_is_checked_is_reported(
    text: str, warned: bool, tmp_path: Path
) -> None:
    parts = list(examine(write_pipeline(tmp_path, text)))
    assert all(part.ok for part in parts)
    about = [part for part in parts if part.name == "topic invoices"]
    assert bool(about) == warned
    assert all(part.state == "it is compacted" and "`final`" in part.advice for part in about)
