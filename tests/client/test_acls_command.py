"""`kafka-offsets acls`: the options of kafka-acls.sh mean the same ACLs."""

import io
import json
from collections.abc import Iterator

import pytest

from kafka_offsets import Broker, cli
from kafka_offsets.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kafka_offsets.testing import allow, deny

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker({"super.users": "User:ANONYMOUS"}, acls=[]) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.remove_acls(*running.acls)
    return running


def acls(broker: Broker, line: str, code: int = 0) -> None:
    assert cli.main(["acls", *line.split(), "--bootstrap-server", broker.bootstrap_servers]) == code


TOKENS = AclBinding(
    ResourceType.USER,
    "User:bob",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.CREATE_TOKENS,
    Permission.ALLOW,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "--allow-principal User:alice --operation Read --topic orders",
            [allow("alice", "READ", topic="orders")],
        ),
        ("--allow-principal User:* --topic a --topic b", [allow("*", "ALL", topic=name) for name in "ab"]),
        (
            "--allow-principal User:a --deny-principal User:b --deny-host ::1 --operation DescribeConfigs --group g",
            [
                allow("a", "DESCRIBE_CONFIGS", group="g"),
                deny("b", "DESCRIBE_CONFIGS", group="g", host="::1"),
            ],
        ),
        (
            "--allow-principal User:a --operation alter_configs --group g --resource-pattern-type prefixed",
            [allow("a", "ALTER_CONFIGS", group="g", prefix=True)],
        ),
        (
            "--allow-principal User:alice --producer --topic orders --transactional-id x --group g --idempotent",
            [
                *(allow("alice", each, topic="orders") for each in ("WRITE", "DESCRIBE", "CREATE")),
                *(allow("alice", each, transactional_id="x") for each in ("WRITE", "DESCRIBE")),
                allow("alice", "IDEMPOTENT_WRITE", cluster=True),
            ],
        ),
        (
            "--allow-principal User:alice --producer --consumer --topic orders --group g --allow-host ::1",
            [
                *(
                    allow("alice", each, topic="orders", host="::1")
                    for each in ("WRITE", "DESCRIBE", "CREATE", "READ")
                ),
                allow("alice", "READ", group="g", host="::1"),
            ],
        ),
        ("--deny-principal User:eve --operation Create --cluster", [deny("eve", "CREATE", cluster=True)]),
        ("--allow-principal User:alice --operation CreateTokens --user-principal User:bob", [TOKENS]),
    ],
)
def test_added_acls_are_those_of_the_script_and_are_removed_by_the_same_words(
    broker: Broker, line: str, expected: list[AclBinding], capsys: Captured
) -> None:
    other = allow("carol", "READ", topic="orders")
    broker.add_acls(other)
    acls(broker, f"add {line} --json")
    assert broker.acls == {other, *expected}
    assert [json.loads(each) for each in capsys.readouterr().out.splitlines()] == [
        each.texts() for each in sorted(expected)
    ]
    acls(broker, f"--add {line}")  # the words of the script; once more is no error
    assert broker.acls == {other, *expected}
    acls(broker, f"--remove --force {line}")
    assert broker.acls == {other}


@pytest.mark.parametrize("line", ["--list --force", "--force --list", "list --force"])
def test_every_action_takes_force_as_the_script_does(broker: Broker, line: str, capsys: Captured) -> None:
    broker.add_acls(allow("alice", "READ", topic="pub"))
    acls(broker, line)
    assert "User:alice" in capsys.readouterr().out


def test_a_list_is_an_aligned_table(broker: Broker, capsys: Captured) -> None:
    broker.add_acls(allow("alice", "READ", topic="pub", prefix=True), deny("*", "ALL", group="billing"))
    acls(broker, "list")
    assert capsys.readouterr().out.splitlines() == [
        "RESOURCE-TYPE  NAME     PATTERN-TYPE  PRINCIPAL   HOST  OPERATION  PERMISSION",
        "TOPIC          pub      PREFIXED      User:alice  *     READ       ALLOW",
        "GROUP          billing  LITERAL       User:*      *     ALL        DENY",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--list", ["pub", "public", "billing"]),
        ("--list --topic public", ["public"]),
        ("--list --topic pub --resource-pattern-type any", ["pub"]),
        ("--list --topic public --resource-pattern-type match", ["pub", "public"]),
        ("--list --topic public --group billing", ["public", "billing"]),
        ("--list --principal User:bob --principal User:carol", ["public", "billing"]),
        ("--list --group billing --principal User:alice", []),
        ("--list --cluster", []),
    ],
)
def test_a_list_selects_resources_and_principals(
    broker: Broker, line: str, expected: list[str], capsys: Captured
) -> None:
    broker.add_acls(
        allow("alice", "READ", topic="pub", prefix=True),
        allow("bob", "READ", topic="public"),
        allow("carol", "READ", group="billing"),
    )
    acls(broker, f"{line} --json")
    assert [json.loads(each)["name"] for each in capsys.readouterr().out.splitlines()] == expected


@pytest.mark.parametrize(("answer", "is_removed"), [("y\n", True), ("n\n", False), ("", False)])
def test_remove_asks_and_removes_all_acls_of_a_resource(
    broker: Broker, answer: str, is_removed: bool, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_topic, other = allow("alice", "READ", topic="orders"), allow("alice", "READ", topic="pages")
    broker.add_acls(of_topic, deny("bob", "WRITE", topic="orders"), other)
    before = broker.acls
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    acls(broker, "remove --topic orders")
    assert broker.acls == ({other} if is_removed else before)
    printed = capsys.readouterr()
    assert of_topic.text in printed.err and "Delete these ACLs? (y/n)" in printed.err
    assert ("User:alice" in printed.out) == is_removed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("add --allow-principal User:alice", "name a resource: --topic, --group, --cluster, "),
        ("add --topic orders", "name a principal, with --allow-principal or --deny-principal"),
        ("add --topic orders --allow-principal alice", "alice is not TYPE:NAME, such as User:alice"),
        ("add --topic t --allow-principal User:a --operation Reed", "Reed is none of All, Read, Write, "),
        (
            "add --group g --allow-principal User:a --operation Write",
            "the operations on a GROUP are All, Read, Delete, Describe, DescribeConfigs, AlterConfigs",
        ),
        (
            "add --topic t --allow-principal User:a --resource-pattern-type match",
            "the pattern type literal or",
        ),
        (
            "add --topic t --allow-principal User:a --resource-pattern-type same",
            "same is none of any, match, ",
        ),
        ("add --group g --allow-principal User:a --producer", "--producer and --consumer need a --topic"),
        ("add --topic t --allow-principal User:a --consumer", "--consumer needs a --group"),
        ("add --topic t --allow-principal User:a --idempotent", "--idempotent needs --producer"),
        (
            "add --topic t --allow-principal User:a --producer --operation Read",
            "--operation, --deny-principal and --deny-host are without --producer and --consumer",
        ),
        (
            "add --topic t --group g --allow-principal User:a --consumer --cluster",
            "--consumer is without --cluster and --transactional-id",
        ),
        ("list --producer", "unrecognized arguments: --producer"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    broker: Broker, line: str, message: str, capsys: Captured
) -> None:
    code: object
    try:
        code = cli.main(["acls", *line.split(), "--bootstrap-server", broker.bootstrap_servers])
    except SystemExit as exit_:
        code = exit_.code
    error = capsys.readouterr().err
    assert code == cli.CANNOT
    assert message in error and error.count("\n") == 1
    assert broker.acls == frozenset()


def test_a_broker_without_an_authorizer_refuses(capsys: Captured) -> None:
    with Broker() as plain:
        for line in ("list", "add --topic t --allow-principal User:a", "remove --topic t --force"):
            acls(plain, line, code=cli.REFUSED)
            error = capsys.readouterr().err
            assert "No Authorizer is configured" in error and "SECURITY_DISABLED (54)" in error
