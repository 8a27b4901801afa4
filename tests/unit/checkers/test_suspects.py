"""A checker is queried only if there is a suspect, so every finding must have one."""

import pytest
import test_custom_pipelines  # noqa: F401 - adds its runs to the job
from cases import CASES
from one_job import Job

from checkers.checker import Checker
from checkers.checking.run_checks import SUSPECT_OF, count_and_select
from checkers.findings import Rule, Suspect
from checkers.registry import STORE_CHECKERS

SUSPICIOUS = [
    "undue_fencing",
    "inconsistent_offsets",
    "aborted_read",
    "precommitted_read",
    "unseen",
    "phantom",
    "offset_output_mismatch",
    "lost_input",
    "aggregate_mismatch",
]
"""The checkers that have suspects."""


def test_these_cases_have_suspects(job: Job) -> None:
    assert [one.module for one in STORE_CHECKERS if one.suspects(job.tables)] == SUSPICIOUS


@pytest.mark.parametrize(
    "checker",
    [one for one in STORE_CHECKERS if one.module in SUSPICIOUS],
    ids=lambda one: one.module,
)
def test_every_run_with_a_finding_has_a_suspect(checker: Checker, job: Job) -> None:
    looked = [
        frame for frame in (checker.find(job.tables), checker.undecided(job.tables)) if frame is not None
    ]
    found = {row["run"] for frame in looked for row in frame.select("run").distinct().collect()}
    wanted, tables = SUSPECT_OF + checker.module, {suspect.table for suspect in checker.suspects(job.tables)}
    there = {run for run, table in job.counts.counts if table in tables and job.counts.of(run, table)[wanted]}
    assert found, "no run has a finding of it"
    assert found <= there
    assert not set(range(len(CASES))) <= there, "every run has a suspect: asking for them saves nothing"


class OfGroups(Checker):
    """A checker whose rule is the only one over its table."""

    def rules(self, tables: object) -> tuple[Rule, ...]:
        return (Rule("no-such-anomaly", "groups", where="final > 0", order=["tp"], detail={}),)

    def suspects(self, tables: object) -> tuple[Suspect, ...]:
        return (Suspect("journals", "role = 'no such role'"),)


def test_conditions_over_any_table_are_counted(job: Job) -> None:
    checker = OfGroups("no_such_anomaly")
    _, selection = count_and_select(job.tables, (checker,))
    assert selection is not None
    assert selection.tables == {"groups"}
    assert selection.modules == frozenset()
