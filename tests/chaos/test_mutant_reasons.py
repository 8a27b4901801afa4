"""Every reason for a surviving mutant is of a mutant that is there: half a minute, for all mutants are made."""

from tests.mutants.mutate import mutants
from tests.mutants.reasons import reasons
from tests.mutants.subjects import ROOT, subjects_of


def test_a_reason_is_of_a_mutant_that_is_there() -> None:
    there = {mutant.key for file in subjects_of() for mutant in mutants(file, (ROOT / file).read_text())}
    assert sorted(reasons().keys() - there) == []
