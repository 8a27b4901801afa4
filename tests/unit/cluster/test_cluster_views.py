from harness.cluster import PartitionView
from harness.cluster.admin import BrokerView, find_sync_problems
from harness.cluster.questions import java_hash, partition_for
from harness.wire.protocol import WireError

ALL = (1, 2, 3)


def view(
    leader: int = 1, isr: tuple[int, ...] = ALL, brokers: tuple[int, ...] = ALL, epoch: int = 5
) -> BrokerView:
    return BrokerView(brokers, {"orders": {3: PartitionView(leader, ALL, isr, "id")}}, {("orders", 3): epoch})


def said(*views: BrokerView | WireError) -> list[str]:
    return list(find_sync_problems(dict(enumerate(views, 1)), ALL))


def test_nothing_is_said_where_all_is_well() -> None:
    assert said(view(), view(), view()) == []


def test_a_shrunk_isr_is_told_with_who_sees_it() -> None:
    assert said(view(), view(isr=(1, 3)), view()) == ["orders/3 lacks broker 2 in broker 2's view"]


def test_a_partition_without_a_leader_is_told() -> None:
    assert "orders/3 has no leader in broker 1's view" in said(view(leader=-1), view(leader=-1))


def test_a_broker_that_is_silent_or_fenced_is_told() -> None:
    assert said(view(brokers=(1, 3)), WireError("no answer"), view()) == [
        "broker 2 is not registered in broker 1's view",
        "broker 2 does not answer",
    ]


def test_a_woken_broker_that_still_says_what_was_true_is_found_out() -> None:
    stale, fresh = view(leader=1, epoch=5), view(leader=2, epoch=6)
    assert said(stale, fresh, fresh) == [
        "brokers 1 and 2 disagree on who leads orders/3",
        "brokers 1 and 3 disagree on who leads orders/3",
    ]
    assert said(view(epoch=5), view(epoch=6)) != []


def test_the_hash_is_javas() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


def test_the_smallest_hash_has_the_absolute_value_0() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 7) == 0


def test_a_negative_hash_is_taken_without_its_sign() -> None:
    negative = next(f"transactional-id-{n}" for n in range(100) if java_hash(f"transactional-id-{n}") < 0)
    assert partition_for(negative, 6) == -java_hash(negative) % 6
