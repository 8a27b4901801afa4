import pytest

from harness.clients.security import Security
from harness.cluster.admin import Refused
from harness.cluster.external import addresses_of
from harness.cluster.forbidden import explained
from harness.errors import UsageError
from harness.settings.clusters import check_external


def test_servers_are_read_with_their_ports() -> None:
    told = addresses_of("kafka-1:9092, [::1]:9093", Security("SSL"))
    assert [(one.host, one.port, one.security.protocol) for one in told] == [
        ("kafka-1", 9092, "SSL"),
        ("::1", 9093, "SSL"),
    ]
    assert str(told[1]) == "[::1]:9093"


@pytest.mark.parametrize("text", ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:99999", "a:1,b"])
def test_what_names_no_server_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="bootstrap must be HOST:PORT"):
        addresses_of(text, Security())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("external", None, None, "none", {}), "needs --set bootstrap=HOST:PORT"),
        (("external", "a:1", None, "none", {"x": "1"}), "has its own broker settings"),
        (("external", "a:1", None, "logs", {}), "leave out --keep logs"),
        (("local", "a:1", None, "none", {}), "--set bootstrap needs --cluster external"),
        (("local", None, "file", "none", {}), "--set client-config needs --cluster external"),
        (("local", None, None, "topics", {}), "--keep topics needs --cluster external"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: tuple[object, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_external(*given)  # type: ignore[arg-type]


def test_options_that_go_together_pass() -> None:
    check_external("external", None, "file", "topics", {})
    check_external("local", None, None, "logs", {"x": "1"})


@pytest.mark.parametrize(
    ("code", "kind"), [(29, "topic"), (30, "group"), (53, "transactional-id"), (31, "topic")]
)
def test_what_acls_forbid_is_told_with_what_allows_it(code: int, kind: str) -> None:
    told = str(explained(Refused("asking", code), "Create", "fencepost-1"))
    assert f"--{kind} fencepost- --resource-pattern-type prefixed" in told


def test_an_error_that_may_pass_is_no_refusal() -> None:
    assert explained(Refused("asking", 15), "Describe", "x") is None
