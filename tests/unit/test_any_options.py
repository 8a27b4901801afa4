"""Any text or value for an option is either accepted and can be stored, or refused in one sentence."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.common.errors import UsageError
from harness.common.wording import redact_setting, redact_text
from harness.settings.options import FIELDS, Options, from_toml, parse_set, to_toml

KEYS = st.sampled_from([*FIELDS, "broker.a", "broker.", "spark.a", "spark.a.password", "", "worker"])
TEXTS = (
    st.text(max_size=20)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.sampled_from(["none", "auto", "local[2]", "https://a:b@host", "a,b", "\udcff", "a\nb"])
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)


def is_one_line(error: UsageError) -> bool:
    return str(error) != "" and "\n" not in str(error)


@settings(max_examples=150, deadline=None)
@given(KEYS, st.sampled_from(["=", "", " = "]), TEXTS)
def test_any_assignment_is_accepted_or_refused_in_one_line(key, equals, text):
    try:
        options = Options().updated(parse_set(key + equals + text))
    except UsageError as error:
        assert is_one_line(error)
    else:
        assert from_toml(to_toml(options)) == options.redacted()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(FIELDS)), VALUES)
def test_any_value_of_a_file_is_accepted_or_refused_in_one_line(key, value):
    try:
        options = from_toml({key: value})
    except UsageError as error:
        assert is_one_line(error)
    else:
        assert from_toml(to_toml(options)) == options.redacted()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_redacting_twice_changes_nothing(name, text):
    once = redact_setting(name, text)
    assert redact_setting(name, once) == once
    assert redact_text(redact_text(text)) == redact_text(text)


SECRETS = st.text(st.characters(categories=["Lu", "Ll", "Nd"]), min_size=8, max_size=12).map("Zq0Z{}".format)


@given(
    SECRETS, st.sampled_from(["https://u:{}@h/x", "-Da.password={} -b", 'a password="{}";', "x?token={}&y=1"])
)
def test_no_secret_remains_in_a_redacted_text(secret, form):
    assert secret not in redact_text(form.format(secret))


@pytest.mark.parametrize("key", list(FIELDS))
def test_every_stored_default_can_be_read_again(key):
    with suppress(KeyError):
        value = to_toml(Options())[key]
        assert Options().updated({key: value}) == Options()
