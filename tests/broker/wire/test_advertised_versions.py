"""ApiVersions: the list of APIs is encoded once for a table, and equals one that is encoded for each request."""

from dataclasses import replace

import pytest

from kafka_offsets.broker.core.api_table import SERVED
from kafka_offsets.broker.wire.api import AdvertisedApis, Apis
from kafka_offsets.protocol import messages

VERSIONS = range(5)


def response(api_keys) -> messages.ApiVersionsResponse:
    return messages.ApiVersionsResponse(api_keys=api_keys)


def keys_of(apis: Apis) -> list[messages.ApiVersionsResponse.ApiVersion]:
    return [
        messages.ApiVersionsResponse.ApiVersion(each.key, each.min_version, each.max_version) for each in apis
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_encoded_as_objects_are_each_time(version):
    apis = Apis(SERVED)
    wanted = messages.encode(response(keys_of(apis)), version)
    for _ in range(2):
        assert messages.encode(response(AdvertisedApis(apis)), version) == wanted


@pytest.mark.parametrize("version", VERSIONS)
def test_another_table_has_its_own_list(version):
    apis = Apis(SERVED)
    messages.encode(response(AdvertisedApis(apis)), version)
    fewer = Apis(replace(each, versions=(each.min_version, each.min_version)) for each in list(SERVED)[3:])
    wanted = messages.encode(response(keys_of(fewer)), version)
    assert messages.encode(response(AdvertisedApis(fewer)), version) == wanted


@pytest.mark.parametrize("version", VERSIONS)
def test_a_list_that_was_changed_is_encoded_as_it_is(version):
    apis = Apis(SERVED)
    messages.encode(response(AdvertisedApis(apis)), version)
    rows, objects = AdvertisedApis(apis), keys_of(apis)
    rows[2].max_version = objects[2].max_version = 77
    assert messages.encode(response(rows), version) == messages.encode(response(objects), version)
    assert messages.encode(response(AdvertisedApis(apis)), version) != messages.encode(
        response(objects), version
    )
