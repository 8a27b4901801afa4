from harness.cluster import PartitionView
from harness.cluster.admin import BrokerView, find_sync_problems
from harness.cluster.questions import java_hash, partition_for
from harness.wire.protocol import WireError

ALL = (1, 2, 3)


def view(
    leader: int = 1, isr: tuple[int, ...] = ALL, brokers: tuple[int, ...] = ALL, epoch: int = 5
) -> BrokerView:
    return BrokerView(brokers, {"orders": {3: PartitionView(leader, ALL, isr, "id")}}, {("orders", 3): epoch})


def problems(*views: BrokerView | WireError) -> list[str]:
    return list(find_sync_problems(dict(enumerate(views, 1)), ALL))


def test_views_in_sync_have_no_problems() -> None:
    assert problems(view(), view(), view()) == []


def test_a_shrunk_isr_is_a_problem_that_names_the_broker_that_sees_it() -> None:
    assert problems(view(), view(isr=(1, 3)), view()) == ["orders/3 lacks broker 2 in broker 2's view"]


def test_a_partition_without_a_leader_is_a_problem() -> None:
    assert problems(view(leader=-1), view(leader=-1)) == [
        "orders/3 has no leader in broker 1's view",
        "orders/3 has no leader in broker 2's view",
    ]


def test_a_broker_that_does_not_answer_or_is_not_registered_is_a_problem() -> None:
    assert problems(view(brokers=(1, 3)), WireError("no answer"), view()) == [
        "broker 2 is not registered in broker 1's view",
        "broker 2 does not answer",
    ]


def test_views_that_disagree_on_a_leader_are_a_problem() -> None:
    stale, fresh = view(leader=1, epoch=5), view(leader=2, epoch=6)
    assert problems(stale, fresh, fresh) == [
        "brokers 1 and 2 disagree on who leads orders/3",
        "brokers 1 and 3 disagree on who leads orders/3",
    ]
    assert problems(view(epoch=5), view(epoch=6)) == ["brokers 1 and 2 disagree on who leads orders/3"]


def test_java_hash_equals_javas_string_hash_code() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


def test_the_smallest_hash_leads_to_partition_0() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 7) == 0


def test_a_negative_hash_is_used_without_its_sign() -> None:
    negative = next(f"transactional-id-{n}" for n in range(100) if java_hash(f"transactional-id-{n}") < 0)
    assert partition_for(negative, 6) == -java_hash(negative) % 6
