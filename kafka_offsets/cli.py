"""Command line: commands, options, and one-line error messages.

A command is imported only when it is used, so that each starts quickly. Exit codes: 0 done; 1 the command found
something wrong in its input; 2 the command could not be carried out.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import kafka_offsets
from kafka_offsets.errors import (
    BindError,
    ConfigError,
    KafkaOffsetsError,
    ListenerError,
    RefusedError,
    StorageError,
    nearest_name,
)
from kafka_offsets.terminal import note, printable

if TYPE_CHECKING:
    from kafka_offsets.broker.config.images import InitialTopic

REFUSED = 1
"""Exit code of a command that a broker refuses, or whose broker is refused: a wrong password, certificate, topic."""

CANNOT = 2
"""Exit code of a command that cannot be carried out: a wrong option, key, file, directory or port."""

_ASKS = {
    "groups": "list, describe, reset or delete groups, on any Kafka broker",
    "offsets": "list, commit, reset, delete, clean up, export or import offsets of groups, on any Kafka broker",
    "lag": "print the lag of groups, once or repeatedly, on any Kafka broker",
    "why": "say what is stuck, in one sentence each, on any Kafka broker",
}
"""The commands that manage the groups of a broker."""

_RECORDS = {
    "produce": "produce the lines of standard input as records, on any Kafka broker, with the options of kcat",
    "consume": "print the records of a topic, of any Kafka broker, with the options and formats of kcat",
}
"""The commands for records."""

_ACLS = {"acls": "list, add or remove ACLs, on any Kafka broker, with the options of kafka-acls.sh"}

_CLUSTER = {
    "topics": "list, describe, create, change or delete topics, on any Kafka broker, as kafka-topics.sh does",
    "transactions": "list or describe transactions, find hanging ones and abort them, as kafka-transactions.sh",
}
"""The commands for topics and transactions."""

_LATE = (
    _ASKS
    | _CLUSTER
    | _ACLS
    | _RECORDS
    | {
        "spark": (
            "analyses of a log of committed offsets: state, lag, expiry, activity, audit, reports, by Apache Spark"
        ),
        "inspect": "explain a segment file, a record or a frame, byte by byte",
        "completion": "print a shell script that completes commands and options",
    }
)
"""The commands whose arguments are in a module that is imported when they are used."""

_INVALID_CHOICE = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)$", re.DOTALL)
"""The message of argparse for a word that is none of some."""

_INVALID_NUMBER = re.compile(r"invalid (?:int|float) value: '(.*)'$", re.DOTALL)

_MOST_BROKERS = 100
_INTERRUPTED = 130
_BROKEN_PIPE = 141


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Commands whose own help begins with their line in the help of the program."""

    def add_parser(self, name: str, **given: Any) -> Any:
        """Add a command."""
        return super().add_parser(name, **{"description": given.get("help"), **given})


class _Parser(argparse.ArgumentParser):
    """Prints errors in one line, without the usage."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.register("action", "parsers", _Commands)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown arguments here: the parser of a command knows its options, and the main parser does not."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse_redpanda(unknown)
            option = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            advice = nearest_name(option, self._option_string_actions) if option else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
        return options, unknown

    def _refuse_redpanda(self, unknown: Sequence[str]) -> None:
        """Say what to write instead of the flags by which Redpanda's image is started."""
        if any("kafka-addr" in word for word in unknown):
            from kafka_offsets.broker.config.advice import variables_for_redpanda

            self.error(f"instead of the flags of Redpanda give --env, with {variables_for_redpanda(unknown)}")

    def error(self, message: str) -> NoReturn:
        """Write the error to standard error, with a similar choice if there is one, and exit with code 2."""
        message = _INVALID_NUMBER.sub(r"\1 is not a number", message)
        wrong = _INVALID_CHOICE.search(message)
        advice = nearest_name(wrong[1], re.findall(r"[\w-]+", wrong[2])) if wrong is not None else ""
        self.exit(CANNOT, printable(f"{self.prog}: {message}{advice} (see {self.prog} --help)") + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    arguments  without the program's name; default: those of the process
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    try:
        code = _run(words)
        sys.stdout.flush()  # report a write error here, not when the interpreter exits
    except (RefusedError, ListenerError) as error:
        return _cannot(str(error), REFUSED)
    except KafkaOffsetsError as error:
        return _cannot(str(error))
    except BrokenPipeError:
        # The reader of our output has closed the pipe, as `head` does; the interpreter must not flush into it again.
        _drop_output()
        return _BROKEN_PIPE
    except OSError as error:
        _drop_output()
        return _cannot(f"cannot write the output: {error.strerror or error}")
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _drop_output() -> None:
    """Discard the remaining buffer of standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    if words[:1] == ["inspect"]:
        from kafka_offsets.commands import inspect

        return inspect.main(words[1:])
    if words and words[0] in _ASKS:
        from kafka_offsets.commands.groups import arguments

        arguments_left = arguments.normalized(words[1:]) if words[0] == "groups" else words[1:]
        return arguments.run(_parser_of(words[0]).parse_args(arguments_left))
    if words and words[0] in _CLUSTER:
        from kafka_offsets.commands.cluster import arguments as of_cluster

        return of_cluster.run(_parser_of(words[0]).parse_args(of_cluster.normalized(words[0], words[1:])))
    if words and words[0] in _ACLS:
        from kafka_offsets.commands.acls import arguments as of_acls

        return of_acls.run(_parser_of(words[0]).parse_args(of_acls.normalized(words[1:])))
    if words and words[0] in _RECORDS:
        from kafka_offsets.commands.records import arguments as of_records

        return of_records.run(_parser_of(words[0]).parse_args(words[1:]))
    if words[:1] == ["spark"]:
        from kafka_offsets.commands import spark as spark_command

        return spark_command.run(_parser_of("spark").parse_args(words[1:]))
    if words[:1] == ["completion"]:
        from kafka_offsets.commands import completion

        return completion.run(_parser_of("completion").parse_args(words[1:]), _parser(is_whole=True))
    if words[:1] == ["exec"]:
        return _exec(words[1:])
    if words[:1] == ["node"]:  # not in the help: `serve --brokers` starts it
        return _node()
    everything = _parser()
    options = everything.parse_args(words)
    if options.version:
        print(f"kafka-offsets {kafka_offsets.__version__}", flush=True)
        return 0
    if options.command is None:
        everything.print_help(sys.stderr)
        return CANNOT
    commands = {"check": _check, "compact": _compact, "serve": _serve}
    return commands[options.command](options)


def _parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of a command whose module is imported when it is used."""
    parser = _Parser(prog=f"kafka-offsets {command}", description=_LATE[command])
    _fill(parser, command)
    return parser


def _fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the arguments of such a command."""
    if command == "spark":
        from kafka_offsets.commands import spark

        spark.add_actions(parser)
    elif command == "completion":
        from kafka_offsets.commands import completion

        completion.add_arguments(parser)
    elif command == "inspect":
        from kafka_offsets.commands import inspect

        inspect.add_arguments(parser)
    elif command in _CLUSTER:
        from kafka_offsets.commands.cluster import arguments as of_cluster

        of_cluster.add_command(parser, command)
    elif command in _ACLS:
        from kafka_offsets.commands.acls import arguments as of_acls

        of_acls.add_command(parser)
    elif command in _RECORDS:
        from kafka_offsets.commands.records import arguments as of_records

        of_records.add_command(parser, command)
    else:
        from kafka_offsets.commands.groups import arguments

        arguments.add_command(parser, command)


def _parser(*, is_whole: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the program.

    is_whole  with the arguments of every command, which imports all of them
    """
    parser = _Parser(
        prog="kafka-offsets", description="A Kafka broker for offsets and groups, and its tools."
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _add_serve_options(
        commands.add_parser(
            "serve", help="run a broker until SIGINT or SIGTERM; writes its address to standard error"
        )
    )
    _add_serve_options(
        commands.add_parser(
            "exec",
            help="run a command with a broker of its own; exits with the code of the command",
            usage="kafka-offsets exec [options of serve] -- COMMAND [ARGUMENT ...]",
            epilog="The command gets the addresses in KAFKA_BOOTSTRAP_SERVERS, SPRING_KAFKA_BOOTSTRAP_SERVERS and, "
            "with --http, KAFKA_OFFSETS_HTTP. Without --port the broker takes a free port.",
        )
    )
    check = commands.add_parser(
        "check",
        help="verify a data directory, or the folder of one partition, without changing it",
        epilog="Exit code: 0 when there is no damage, 1 when there is, 2 when it cannot be read or a broker uses it.",
    )
    check.add_argument("directory", type=_directory, metavar="DIR", help="the directory or folder")
    check.add_argument("--json", action="store_true", help="print one JSON object per line")
    compact = commands.add_parser(
        "compact",
        help="compact the logs of a data directory, or of one partition's folder, that no broker uses",
        epilog="Exit code: 0 done, 1 when a partition was left as it is, 2 when it cannot be read or a broker uses it.",
    )
    compact.add_argument("directory", type=_directory, metavar="DIR", help="the directory or folder")
    compact.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, and change nothing"
    )
    compact.add_argument(
        "--include-active",
        action="store_true",
        help="roll to a new segment first, so that the active segment is compacted too",
    )
    compact.add_argument("--json", action="store_true", help="print one JSON object per line")
    _add_config_options(compact)
    for name, help_ in _LATE.items():
        late = commands.add_parser(name, help=help_, add_help=is_whole)
        if is_whole:
            _fill(late, name)
    return parser


def _add_serve_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("--port", type=_port, help="where to listen (9092); 0 takes a free port")
    serve.add_argument("--host", help="where to listen (127.0.0.1)")
    serve.add_argument(
        "--data-dir",
        type=_directory,
        metavar="DIR",
        help="directory for topics and offsets; default: in memory",
    )
    serve.add_argument(
        "--metrics-port",
        type=_port,
        help="port of the metrics for Prometheus; 0 takes a free port; default: disabled",
    )
    serve.add_argument(
        "--topic",
        type=_new_topic,
        action="append",
        default=[],
        metavar="TOPIC[:PARTITIONS]",
        help="create this topic if it does not exist; may be given several times",
    )
    serve.add_argument(
        "--env",
        action="store_true",
        help="set keys by variables such as KAFKA_NUM_PARTITIONS, as Kafka's Docker images do; they override the file",
    )
    serve.add_argument(
        "--verbose", action="store_true", help="write a line for each request to standard error"
    )
    _add_control_options(serve)
    serve.add_argument(
        "--ready",
        action="store_true",
        help="start nothing: exit with 0 if a broker that was started with these options is ready, with 1 if not",
    )
    serve.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="format of the lines on standard error: text, or one JSON object per line",
    )
    _add_cluster_options(serve)
    _add_config_options(serve)


def _add_control_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--http",
        type=_http_address,
        metavar="[HOST:]PORT",
        help="control for tests in any language, as JSON over HTTP; port 0 takes a free port; default: disabled",
    )
    serve.add_argument(
        "--http-token",
        metavar="TOKEN",
        help="with --http: requests need the header `Authorization: Bearer TOKEN` (variable KAFKA_OFFSETS_HTTP_TOKEN)",
    )
    serve.add_argument(
        "--manual-clock",
        action="store_true",
        help="with --http: the broker's clock stands still until a request moves it",
    )
    serve.add_argument(
        "--instance",
        metavar="NAME",
        help="with --http: the name of this process, by which /readyz?instance=NAME and --ready know it",
    )
    serve.add_argument(
        "--with-parent",
        type=_parent,
        metavar="PID|stdin",
        help="end when this process has ended, or when standard input has: no server outlives its tests",
    )


def _add_cluster_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--brokers",
        type=_broker_count,
        metavar="N",
        help="run a cluster of N brokers, each in its own process, at this and the next ports",
    )
    serve.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[/PATH]",
        help="run one broker of a cluster with its metadata in ZooKeeper; brokers may be on different machines",
    )
    serve.add_argument(
        "--node-id", type=_node_id, metavar="ID", help="with --zookeeper: the id of this broker"
    )
    serve.add_argument(
        "--controller-port",
        type=_port,
        default=0,
        help="with --zookeeper: where this broker serves the metadata while it is the controller (any free port)",
    )


def _add_config_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "--set",
        action="append",
        type=_key_and_value,
        default=[],
        metavar="KEY=VALUE",
        help="set a key of docs/configuration.md; overrides the file; may be given several times",
    )


def _directory(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the empty string is not a directory")
    return Path(text)


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not a port number")


def _http_address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if separator and not host:
        raise argparse.ArgumentTypeError(f"{text} is not [HOST:]PORT")
    return host.strip("[]") or "127.0.0.1", _port(port)


def _parent(text: str) -> str:
    if text == "stdin" or (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        return text
    raise argparse.ArgumentTypeError(f"{text} is neither the id of a process nor stdin")


def _broker_count(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_BROKERS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not a number of brokers, 1 to {_MOST_BROKERS}")


def _new_topic(text: str) -> InitialTopic:
    from kafka_offsets.broker.config.images import InitialTopic

    topic, colon, partitions = text.partition(":")
    if not colon:
        return InitialTopic(topic, None)
    if partitions.isascii() and partitions.isdigit() and int(partitions[:9]) > 0:
        return InitialTopic(topic, int(partitions[:9]))
    raise argparse.ArgumentTypeError(
        f"{text} is not TOPIC or TOPIC:PARTITIONS, with a number of partitions from 1 on"
    )


def _node_id(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 1 << 31:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not the id of a broker")


def _key_and_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError(f"{text} is not KEY=VALUE")
    return key.strip(), value


def _serve(options: argparse.Namespace) -> int:
    from kafka_offsets.broker.network.log_writer import logging_to_standard_error

    with logging_to_standard_error(options.log_format):
        return _serve_and_log(options)


def _serve_and_log(options: argparse.Namespace) -> int:
    from kafka_offsets.broker.config.keys import Config

    warns = options.http is None and not options.ready  # the broker of --http loads the same keys again
    config = Config.load(_settings(options, warns=not options.ready), options.config, warns=warns)
    listener = config.listener()
    host = options.host if options.host is not None else listener.host
    port = options.port if options.port is not None else listener.port
    data_directory = options.data_dir if options.data_dir is not None else config.data_directory()
    if options.ready:
        from kafka_offsets.commands import serve_one

        if options.http is not None:
            if not serve_one.check_http(options.http, options.instance):
                return 1
            if options.port is None and "listeners" not in config.given:
                return 0  # the port of the broker may be any, and HTTP tells of it
        return serve_one.check_ready(config, host, port)
    if options.with_parent is not None:
        from kafka_offsets.commands.lifetime import parent

        parent.end_with(options.with_parent)

    def start() -> None:
        """Imports are after the configuration is read: its errors are reported at once."""
        if options.http is not None:
            from kafka_offsets.commands import serve_http

            serve_http.serve(options, host, port, data_directory)
        elif options.zookeeper is not None:
            from kafka_offsets.commands import serve_with_zookeeper

            serve_with_zookeeper.serve(options, config, host, port, data_directory)
        elif options.brokers is None:
            from kafka_offsets.commands import serve_one

            serve_one.serve(options, config, host, port, data_directory)
        else:
            from kafka_offsets.commands import serve_nodes

            serve_nodes.serve(options, config, host, port, data_directory)

    return _code_of(start, host, port, data_directory)


def _settings(options: argparse.Namespace, *, warns: bool = True) -> dict[str, str]:
    """Return the keys that the options set. Raises ConfigError for options that do not go together."""
    if options.env:
        from kafka_offsets.broker.config.environment import environment_settings
        from kafka_offsets.broker.config.images import initial_topics
        from kafka_offsets.broker.config.keys import KEYS

        options.set = [*environment_settings(os.environ, KEYS, warns=warns).items(), *options.set]
        options.topic = [*options.topic, *initial_topics(os.environ)]
    settings = dict(options.set)
    if (options.topic or options.verbose) and options.zookeeper is not None:
        raise ConfigError("--topic and --verbose cannot be combined with --zookeeper")
    if options.http is not None and options.verbose:
        raise ConfigError(
            "--http keeps the requests, for GET /brokers/main/requests: --verbose is without it"
        )
    if options.http is None:
        for name, is_given in (
            ("--http-token", options.http_token is not None),
            ("--manual-clock", options.manual_clock),
            ("--instance", options.instance is not None),
        ):
            if is_given:
                raise ConfigError(f"{name} needs --http")
    if options.http is not None and (options.brokers is not None or options.zookeeper is not None):
        raise ConfigError(
            "--http serves one broker of this process, without --brokers and --zookeeper; "
            'POST /brokers with {"brokers": 3} starts a cluster'
        )
    if (options.brokers is not None or options.zookeeper is not None) and find_spec("fcntl") is None:
        raise ConfigError(
            "--brokers and --zookeeper need Linux or macOS; on this system `serve` is one broker"
        )
    if options.zookeeper is None:
        if options.node_id is not None or options.controller_port:
            raise ConfigError("--node-id and --controller-port need --zookeeper")
        return settings
    if options.brokers is not None:
        raise ConfigError("--brokers runs a whole cluster, and --zookeeper one broker of a cluster")
    settings["zookeeper.connect"] = options.zookeeper
    if options.node_id is not None:
        settings["node.id"] = str(options.node_id)
    return settings


def _exec(words: list[str]) -> int:
    from kafka_offsets.broker.config.keys import Config
    from kafka_offsets.commands.lifetime import execute

    end = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(["exec", *words[:end]])
    served = words[:end]
    if options.ready or options.with_parent is not None:
        raise ConfigError("exec: --ready and --with-parent are for `serve`")
    config = Config.load(_settings(options, warns=False), options.config, warns=False)  # `serve` warns
    if options.port is None and "listeners" not in config.given:
        served = ["--port", "0", *served]
    return execute.run(options, served, words[end + 1 :])


def _node() -> int:
    from kafka_offsets.commands import serve_nodes

    order = serve_nodes.read_order()
    directory = None if order.data_directory is None else Path(order.data_directory)
    return _code_of(lambda: serve_nodes.run(order), order.host, order.ports[0], directory)


def _code_of(start: Callable[[], None], host: str, port: int, data_directory: Path | None) -> int:
    """Run what serves, and return the exit code; report why it cannot."""
    try:
        start()
    except StorageError as error:  # the paths in its message are relative to the data directory
        return _cannot(str(error) if error.path is None else f"{data_directory}: {error}")
    except OSError as error:
        return _cannot(os_error_text(error, host, port))
    except UnicodeError as error:  # the host name cannot be encoded
        return _cannot(f"cannot listen on {host}:{port}: {error}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from kafka_offsets.commands.check import check

    code = 0
    for line, is_damage in check(options.directory, as_json=options.json):
        print(printable(line))
        code |= is_damage
    return code


def _compact(options: argparse.Namespace) -> int:
    from kafka_offsets.commands import compact

    return compact.run(options)


def os_error_text(error: OSError, host: str, port: int) -> str:
    """Describe an OSError: by the file if it names one, otherwise by the address."""
    # asyncio replaces the message of bind(), but not the number of the error.
    reason = (
        os.strerror(error.errno)
        if error.errno is not None and error.errno > 0
        else error.strerror or str(error)
    )
    if error.filename is not None:
        return f"{error.filename}: {reason}"
    first = where = f"{host}:{port}"
    advice = ""
    if isinstance(error, BindError):
        where = f"{error.host}:{error.port}"
    if error.errno == errno.EADDRINUSE:
        advice = ": choose another with --port" if where == first else ": choose another in listeners"
    elif error.errno is not None and error.errno < 0:  # of socket.gaierror
        advice = ": no host of this network; a listener without a host listens on every interface"
    return f"cannot listen on {where}: {reason}{advice}"


def _cannot(message: str, code: int = CANNOT) -> int:
    note(" ".join(message.split()))
    return code


if __name__ == "__main__":
    sys.exit(main())
