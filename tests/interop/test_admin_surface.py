"""The calls of administrators for topics, configs, groups, offsets, records, logs, the cluster and transactions."""

from collections.abc import Iterator

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism
from confluent_kafka.admin import UserScramCredentialDeletion as ConfluentDeletion
from confluent_kafka.admin import UserScramCredentialUpsertion as ConfluentUpsertion
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry
from confluent_kafka.admin._config import ConfigResource as ConfluentResource
from confluent_kafka.cimpl import NewPartitions as ConfluentPartitions
from confluent_kafka.cimpl import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import NoError, UnknownMemberIdError
from kafka.structs import OffsetAndMetadata

from tests.interop.names import Names
from tests.interop.test_confluent_kafka import EARLIEST, LATEST, TIMEOUT_S, done
from tests.interop.waiting import until

pytestmark = pytest.mark.interop
RECORDS = 10
SESSION_TIMEOUT_MS = 45_000


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as client:
        yield client


@pytest.fixture
def place(admin: KafkaAdminClient, bootstrap: str, names: Names) -> TopicPartition:
    """A partition with records of a transaction that is committed."""
    topic = names.topic()
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.wait_for_topics([topic])
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number)
        producer.commit_transaction()
    return TopicPartition(topic, 0)


@pytest.mark.shows("kafka-python", "admin")
def test_kafka_python_asks_for_topics_and_configs(admin: KafkaAdminClient, place: TopicPartition) -> None:
    topic = place.topic
    assert topic in admin.list_topics()
    (described,) = admin.describe_topic_partitions([topic])["topics"]
    assert (described["name"], len(described["partitions"])) == (topic, 1)
    assert str(described["topic_id"]) == str(admin.describe_topics([topic])[0]["topic_id"])
    admin.create_partitions({topic: NewPartitions(2)}, validate_only=True)
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 1
    assert topic in admin.list_config_resources([ConfigResourceType.TOPIC])["topic"]
    for incremental, days in ((True, "1"), (False, "2")):
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": days})
        admin.alter_configs([wanted], incremental=incremental)
        until(lambda days=days: _config(admin, topic, "retention.ms") == days, "it is set")  # type: ignore[misc]
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    until(lambda: _config(admin, topic, "retention.ms") is None, "it is as it was")
    broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    everything = admin.describe_configs(
        [ConfigResource(ConfigResourceType.BROKER, broker)], config_filter="all"
    )
    assert everything["broker"][broker]["num.partitions"]["value"]


def _config(admin: KafkaAdminClient, topic: str, key: str) -> str | None:
    """The value if it was set for the topic."""
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
    value: str | None = found.get(key, {}).get("value")
    return value


@pytest.mark.shows("kafka-python", "admin")
def test_kafka_python_asks_for_groups_and_offsets(
    admin: KafkaAdminClient, place: TopicPartition, names: Names
) -> None:
    group = names.group()
    assert admin.alter_group_offsets(group, {place: OffsetAndMetadata(5, "five", -1)}) == {place: NoError}
    for spec, offset in (
        (OffsetSpec.EARLIEST, 0),
        (OffsetSpec.LATEST, RECORDS + 1),
        (3, 3),
        (99, RECORDS + 1),
    ):
        answer = admin.reset_group_offsets(group, {place: spec})
        assert answer == {place: {"error": NoError, "offset": offset}}
        assert admin.list_group_offsets(group)[group][place].offset == offset
    assert [entry["group_id"] for entry in admin.list_groups(states_filter=["Empty"])].count(group) == 1
    nobody = MemberToRemove(member_id="nobody")
    assert list(admin.remove_group_members(group, [nobody]).values()) == [UnknownMemberIdError]
    assert admin.delete_group_offsets(group, [place]) == {place: NoError}
    admin.alter_group_offsets(group, {place: OffsetAndMetadata(5, "", -1)})
    assert admin.delete_groups([group]) == {group: "OK"}


@pytest.mark.shows("kafka-python", "admin")
def test_kafka_python_asks_for_records_logs_and_the_cluster(
    admin: KafkaAdminClient, place: TopicPartition
) -> None:
    (deleted,) = admin.delete_records({place: 4}).values()
    assert deleted["low_watermark"] == 4
    assert admin.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset == 4
    (logs,) = admin.describe_log_dirs([place.topic])
    (folder,) = logs["results"] if "results" in logs else logs["log_dirs"]
    (entry,) = folder["topics"]
    assert entry["name"] == place.topic and entry["partitions"][0]["partition_size"] > 0
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"] and len(cluster["brokers"]) == 1
    assert admin.list_partition_reassignments([place]) == {}
    assert admin.describe_features()["transaction.version"]["finalized"] == (2, 2)
    quorum = admin.describe_metadata_quorum()
    assert quorum["topics"][0]["topic_name"] == "__cluster_metadata"
    assert admin.api_versions()


@pytest.mark.shows("kafka-python", "admin")
def test_kafka_python_asks_for_transactions(admin: KafkaAdminClient, place: TopicPartition) -> None:
    (state,) = admin.describe_producers([place])[place].active_producers
    assert state.last_sequence == RECORDS - 1 and state.current_transaction_start_offset == -1
    found = admin.describe_transactions([place.topic])[place.topic]
    assert (found.state, found.producer_id) == ("CompleteCommit", state.producer_id)
    (listed,) = admin.list_transactions(producer_id_filters=[state.producer_id]).values()
    assert [(entry.transactional_id, entry.state) for entry in listed] == [(place.topic, "CompleteCommit")]
    assert admin.find_hanging_transactions() == []


@pytest.mark.shows("kafka-python", "admin")
def test_kafka_python_sets_passwords(admin: KafkaAdminClient, names: Names) -> None:
    user = names.topic()

    def described() -> list[dict[str, object]]:
        found: list[dict[str, object]] = admin.describe_user_scram_credentials([user])[user][
            "credential_infos"
        ]
        return found

    for mechanism, iterations in (("SCRAM-SHA-256", 4096), ("SCRAM-SHA-512", 8192)):
        upsertion = UserScramCredentialUpsertion(user, mechanism, "secret", iterations=iterations)
        assert admin.alter_user_scram_credentials([upsertion]) == {user: None}
    until(lambda: len(described()) == 2, "both are described")
    assert {info["mechanism"].name: info["iterations"] for info in described()} == {  # type: ignore[attr-defined]
        "SCRAM_SHA_256": 4096,
        "SCRAM_SHA_512": 8192,
    }
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        deletion = UserScramCredentialDeletion(user, mechanism)
        assert admin.alter_user_scram_credentials([deletion]) == {user: None}
    until(lambda: described() == [], "both are gone")
    gone = {user: "Attempt to delete a user credential that does not exist"}
    assert admin.alter_user_scram_credentials([deletion]) == gone


@pytest.mark.shows("confluent-kafka", "admin")
def test_confluent_kafka_sets_passwords(bootstrap: str, names: Names) -> None:
    user = names.topic()
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def described() -> list[tuple[str, int]]:
        try:
            found = admin.describe_user_scram_credentials([user])[user].result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].name() != "RESOURCE_NOT_FOUND":
                raise
            return []
        return [(info.mechanism.name, info.iterations) for info in found.scram_credential_infos]

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000)
    done(admin.alter_user_scram_credentials([ConfluentUpsertion(user, info, b"secret")]))
    until(lambda: described() == [("SCRAM_SHA_256", 5000)], "it is described")
    done(admin.alter_user_scram_credentials([ConfluentDeletion(user, ScramMechanism.SCRAM_SHA_256)]))
    until(lambda: described() == [], "it is gone")


@pytest.mark.shows("confluent-kafka", "admin")
def test_confluent_kafka_asks_for_all_it_can(bootstrap: str, names: Names) -> None:
    topic, group = names.topic(), names.group()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    done(admin.create_topics([ConfluentTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics
    done(admin.create_topics([ConfluentTopic(topic, 1, 1)]))
    done(admin.create_partitions([ConfluentPartitions(topic, 2)], validate_only=True))
    described = done(admin.describe_topics(TopicCollection([topic])))[topic]
    assert len(described.partitions) == 1 and not described.is_internal
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    assert producer.flush(TIMEOUT_S) == 0
    place = ConfluentPartition(topic, 0)
    assert done(admin.list_offsets({place: LATEST}))[place].offset == RECORDS
    (deleted,) = done(admin.delete_records([ConfluentPartition(topic, 0, 4)])).values()
    assert deleted.low_watermark == 4
    assert done(admin.list_offsets({place: EARLIEST}))[place].offset == 4
    _configs_of_confluent(admin, topic)
    elected = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(TIMEOUT_S)
    assert {error.name() for error in elected.values()} == {"ELECTION_NOT_NEEDED"}
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert cluster.authorized_operations and cluster.controller is not None
    wanted = ConsumerGroupTopicPartitions(group, [ConfluentPartition(topic, 0, 7)])
    done(admin.alter_consumer_group_offsets([wanted]))
    (answer,) = done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])).values()
    assert [entry.offset for entry in answer.topic_partitions] == [7]
    done(admin.delete_consumer_groups([group]))
    done(admin.delete_topics([topic]))


def _configs_of_confluent(admin: AdminClient, topic: str) -> None:
    """Set a key, by the old call and by the new one, and remove it."""

    def retention() -> str:
        (found,) = done(
            admin.describe_configs([ConfluentResource(ConfluentResource.Type.TOPIC, topic)])
        ).values()
        value: str = found["retention.ms"].value
        return value

    default = retention()
    old = ConfluentResource(ConfluentResource.Type.TOPIC, topic, set_config={"retention.ms": "1000"})
    with pytest.deprecated_call():
        done(admin.alter_configs([old]))
    until(lambda: retention() == "1000", "it is set")
    removal = ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    new = ConfluentResource(ConfluentResource.Type.TOPIC, topic, incremental_configs=[removal])
    done(admin.incremental_alter_configs([new]))
    until(lambda: retention() == default, "it is as it was")
