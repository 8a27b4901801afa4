"""All gap rules, by which the tables of a stored run make it `unknown`.

The order of the rules matters in three ways: of gaps with one subject, the first sentence is kept; the first
contradiction is the reason why nothing is checked; and a rule with `only_new` comes after those that may know the gap.

A run is also unknown if a check crashed, or if its outputs could not be checked (`checkers.checking.stored_runs`), and
for what its plan and its metadata say (`fencepost.checks`).
"""

from dataclasses import dataclass, field

from checkers.gaps import agreement, facts, logs, processes, progress
from checkers.gaps.rule import EvidenceCounts, GapRule, RunEvidence, apply_rules
from checkers.stored.sources import StoredRun
from harness.results.reasons import Reason, ReasonCode

RULES: tuple[GapRule[RunEvidence], ...] = (
    *processes.RULES,
    *progress.RULES,
    *logs.RULES,
    *facts.RULES,
    *agreement.RULES,
    *processes.OBSERVERS,
    GapRule(
        "run-incomplete",
        lambda evidence: [{"why": "; ".join(evidence.run.incomplete)}] if evidence.run.incomplete else [],
        "{why}",
        subject="run",
    ),
)


@dataclass
class MissingEvidence:
    """The gaps in the evidence of one run."""

    reasons: dict[str, Reason] = field(default_factory=dict)  # by subject
    tables: set[str] = field(default_factory=set)  # tables with gaps: an absence from them proves nothing
    contradiction: Reason | None = None  # the tables contradict each other, so no finding is proof


def find_gaps(counts: EvidenceCounts, run: StoredRun) -> MissingEvidence:
    """Apply all rules to one run."""
    missing = MissingEvidence()
    for gap in apply_rules(RULES, RunEvidence(counts, run), run.problems):
        missing.reasons.setdefault(gap.reason.subject, gap.reason)
        missing.tables.update(gap.tables)
        if gap.rule.code is ReasonCode.CONTRADICTORY_EVIDENCE:
            missing.contradiction = missing.contradiction or gap.reason
    return missing
