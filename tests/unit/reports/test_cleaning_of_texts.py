"""What the cleaning of a reproducer replaces in a text, and what it leaves as it is."""

import pytest

from reports.reproducer.cleaning import Cleaning

HOME = "/" + "home"  # no file of this repository names a home
CLEANING = Cleaning(
    folders={"/data/store/shop/1": "", "/data": "<path>"},
    brokers={"127.0.0.1:21200": "broker-1:9092", "kafka2.corp.example:9093": "broker-2:9092"},
    hosts=["buildbox"],
    users=["alice"],
    secret_values=["hunter2"],
    names=["purchases", "shop-1", "feeder"],
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("it is hunter2!", "it is <redacted>!"),
        ("sasl.password=abc, next", "sasl.password=<redacted>, next"),
        ("sasl.password: abc", "sasl.password: <redacted>"),
        ('{"api_key": "abc"}', '{"api_key": <redacted>}'),
        ("run --token abc --fast", "run --token <redacted> --fast"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer <redacted>"),
        ("AWS_REGION=eu-1 and HOME='/x y'", "AWS_REGION=<redacted> and HOME=<redacted>"),
        ("in /data/store/shop/1/brokers/1/data", "in brokers/1/data"),
        ("in /data/store/shop/1 now", "in . now"),
        ("in /data/other/x.log", "in <path>/other/x.log"),
        (f"in {HOME}/bob/x/main.go:12", "in <path>/main.go:12"),
        (f"in {HOME}/bob and ~bob/x", "in <path> and <path>"),
        ("in /opt/acme/lib", "in <path>"),
        ("127.0.0.1:21200 (id: 1 rack: null)", "broker-1:9092 (id: 1 rack: null)"),
        ("/127.0.0.1:21200, localhost/127.0.0.1:45678", "broker-1:9092, localhost:45678"),
        ("kafka2.corp.example:9093", "broker-2:9092"),
        ("node9.corp.example:9093 and db:5432", "<host>:9093 and <host>:5432"),
        ("at 10.1.2.3:44 and 10.1.2.3", "at <host>:44 and <host>"),
        ("at fe80::1 and [2001:db8::7]", "at <host> and <host>"),
        ("see https://git.corp.example/x?y=1", "see <url>"),
        ("registry.corp.internal said no", "<host> said no"),
        ("host=box7 and 'host.name': 'box8'", "host=<host> and 'host.name': <host>"),
        ("on buildbox, by alice", "on <host>, by <user>"),
        ("by a.smith@corp.example, principal=User:smith", "by <user>, principal=<user>"),
        ("user.home=/x/y", "user.home=<user>"),
    ],
)
def test_what_must_not_become_public_is_replaced(before: str, after: str) -> None:
    assert CLEANING.text(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-27T20:24:54.881Z ERROR [ReplicaManager broker=2] Error on x:keys-a-0 (kafka.server.ReplicaManager)",
        "org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for producer 1",
        "at kafka.server.KafkaApis.handle(KafkaApis.scala:1234)",
        "at processTicksAndRejections (node:internal/process/task_queues:105:5)",
        "/usr/lib/python3/x.py and #!/usr/bin/env python3",
        "shop-1.0:42 begins a transaction as shop-1 for inputs purchases/1 @ 9 to 15",
        "feeder:1234 sends with 1 record",
        "EndTxn(abort) 16 of shop-1: delivered to broker 3 when Produce response 9 was seen",
        "Ongoing [payments/1, __consumer_offsets/5], producer 3 epoch 0",
        "api=EndTxn,fields.Committed=false,action=hold,times=200,release.after=EndTxn response+Produce response",
        "group fencepost-shop: member shop-1-3b052b64-25a2-4534-ba6f-f4692f1efd63 has left",
        "std::string and I/O and 50%/s and offset:12345",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "confluent-kafka 2.9.0 (librdkafka 2.8.0)",
        "%0|1795811101.197|FATAL|rdkafka#producer-2| [thrd:main]: Fatal error",
    ],
)
def test_what_a_maintainer_needs_is_left(text: str) -> None:
    assert CLEANING.text(text) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('password = "abc"', 'password = "<redacted>"'),
        ('props.put("sasl.password", "abc");', 'props.put("sasl.password", "<redacted>");'),
        ("{ password: 'abc' }", "{ password: '<redacted>' }"),
        ('servers = "kafka7.corp.example:9093,db:5432"', 'servers = "<host>:9093,<host>:5432"'),
        (f'open("{HOME}/bob/x.json")', 'open("<path>/x.json")'),
        ('url = "https://bob:pw@host/x"', 'url = "https://<redacted>@host/x"'),
    ],
)
def test_literals_in_a_source_are_replaced(before: str, after: str) -> None:
    assert CLEANING.code(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "def connect(password: str, token: Token) -> None:",
        "token = next(tokens)",
        'password=os.environ["PASSWORD"]',
        "#!/usr/bin/env python3",
        'fetch("https://kafka.apache.org/documentation")',
        'servers = args.servers or "localhost:9092"',
        "if (a.b:1000) x = y[3:5000]",
        'const LIMIT_MS = 5000, RETRIES = "x=1";',
        "import org.apache.kafka.clients.producer.KafkaProducer;",
    ],
)
def test_a_source_without_literal_secrets_stays_as_it_is(source: str) -> None:
    assert CLEANING.code(source) == source


def test_a_word_of_a_content_is_replaced_in_a_line_of_a_program() -> None:
    words = {"alice", "54321", "27T18", "purchases"}
    line = CLEANING.printed("2026-11-27T18:29:14.245Z order 7 of alice-b for 54321 in purchases", words)
    name, number = CLEANING.content("alice-b"), CLEANING.content("54321")
    assert line == f"2026-11-27T18:29:14.245Z order 7 of {name} for {number} in purchases"


def test_text_in_quotes_and_braces_is_replaced_in_a_line_of_a_program() -> None:
    body, name = CLEANING.content("{'id': 7}"), CLEANING.content('"x"')
    assert (
        CLEANING.printed("sent {'id': 7} and \"x\", it's done", set()) == f"sent {body} and {name}, it's done"
    )


def test_of_a_json_line_only_texts_about_the_program_stay() -> None:
    line = CLEANING.printed(
        '{"level":"error","msg":"no alice here","size":65,"customer":"bob","total":54321}', {"alice"}
    )
    content = CLEANING.content
    assert line == (
        '{"level": "error", "msg": "no ' + content("alice") + ' here", "size": 65, '
        f'"customer": "{content("bob")}", "total": "{content(54321)}"}}'
    )
