"""The numbers of partitions, also of those that a topic gets during the run."""

from harness.record.naming import PartitionIds

PLANNED = {"in": 2, "out": 1}


def test_partitions_of_the_plan_have_the_first_numbers() -> None:
    names = PartitionIds(PLANNED)
    assert list(names) == [(0, "in", 0), (1, "in", 1), (2, "out", 0)]
    assert (names.id("in", 1), names.planned("out", 0)) == (1, 2)


def test_all_processes_give_an_added_partition_the_same_number() -> None:
    first, second = PartitionIds(PLANNED), PartitionIds(PLANNED)
    numbers = [first.id("in", 2), first.id("out", 1), first.id("in", 3)]
    assert numbers == [second.planned("in", 2), second.planned("out", 1), second.planned("in", 3)]
    assert len(set(numbers)) == 3
    assert min(numbers) > 2


def test_added_partitions_take_no_number_of_another_topic() -> None:
    names = PartitionIds(PLANNED)
    added, internal = names.id("in", 2), names.id("__consumer_offsets", 0)
    assert internal == 3
    assert list(names)[-2:] == [(3, "__consumer_offsets", 0), (added, "in", 2)]


def test_a_partition_of_an_unknown_topic_has_a_negative_number_in_the_plan() -> None:
    names = PartitionIds(PLANNED)
    assert names.planned("other", 0) < 0
    assert names.planned("in", 999_999_999) < 0
    assert names.id("in", 999_999_999) == 3
