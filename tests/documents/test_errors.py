"""docs/errors.md: its tables are what Kafka answered, and what this broker answers when it is provoked."""

from collections.abc import Iterator

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.testing import Broker
from tests.conftest import GeneratedPart
from tests.documents import error_table, provoked
from tests.documents.provoked import FAULTS, PROVOKED, Provoked

PAGE = "docs/errors.md"


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(provoked.OWNERS) as running:
        running.create_topic("orders", 2)
        running.create_topic("pages")
        running.commit("billing", {("orders", 0): 42, ("orders", 1): 42})
        yield running


@pytest.mark.slow
def test_the_tables_of_the_apis_are_those_of_the_recordings(generated: GeneratedPart) -> None:
    generated.check(PAGE, "by API", error_table.tables())
    generated.check(PAGE, "by code", error_table.by_code())


@pytest.mark.slow
def test_the_recordings_cover_more_than_half_of_the_apis() -> None:
    told = {each.api for each in error_table.seen()}
    assert told <= {api.name for api in SERVED}
    assert len(told) > len(SERVED.by_key) / 2


def test_the_table_of_what_is_provoked_is_current(generated: GeneratedPart, broker: Broker) -> None:
    generated.check(PAGE, "provoked", provoked.provoked_table())
    generated.check(PAGE, "faults", provoked.faults_table(broker))


@pytest.mark.interop
@pytest.mark.parametrize("each", PROVOKED, ids=lambda each: f"{each.api} {each.code.name}")
def test_what_is_provoked_is_answered(each: Provoked, broker: Broker) -> None:
    assert each.code in list(error_table.codes(plain(each.ask(broker))))


@pytest.mark.interop
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_gives_its_error_code(name: str, broker: Broker) -> None:
    _, begin = FAULTS[name]
    ask = provoked.produce if "LEADER" in name else provoked.commit()
    with begin(broker):
        assert {provoked.ErrorCode[name]} == set(error_table.codes(plain(ask(broker))))


def plain(value: object) -> object:
    """Return a message as dicts and lists."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    fields = getattr(value, "STRUCT", None)
    return {field.name: plain(getattr(value, field.name)) for field in fields.fields} if fields else value
