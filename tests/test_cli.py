"""The command line: what cannot be done is one line on standard error and exit code 2."""

import argparse
import configparser
import contextlib
import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_offsets import __version__, cli
from kafka_offsets.errors import BindError
from tests.conftest import DATA, REPOSITORY
from tests.documents import pages

SERVE = [sys.executable, "-m", "kafka_offsets.cli", "serve"]


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must end with exit code 2; return the line it says."""
    code: object
    try:
        code = cli.main(words)
    except SystemExit as exit_:  # argparse's way
        code = exit_.code
    said = capsys.readouterr()
    assert code == cli.CANNOT
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err.rstrip("\n")


def served(*options: str) -> str:
    """Start a broker that cannot start, as a process; return the line it says."""
    done = subprocess.run([*SERVE, *options], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert (done.returncode, done.stdout) == (cli.CANNOT, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.rstrip("\n")


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["serve", "--port", "http"],
            "kafka-offsets serve: argument --port: http is not a port number (see kafka-offsets serve --help)",
        ),
        (
            ["serve", "--port", "65536"],
            "kafka-offsets serve: argument --port: 65536 is not a port number (see kafka-offsets serve --help)",
        ),
        (
            ["serve", "--set", "fsync"],
            "kafka-offsets serve: argument --set: fsync is not KEY=VALUE (see kafka-offsets serve --help)",
        ),
        (
            ["serve", "--set", "group.min.sesion.timeout.ms=1"],
            (
                "kafka-offsets: unknown configuration key group.min.sesion.timeout.ms; "
                "did you mean group.min.session.timeout.ms?"
            ),
        ),
        (
            ["serve", "--set", "num.partitions=0"],
            "kafka-offsets: Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            ["serve", "--brokers", "0"],
            (
                "kafka-offsets serve: argument --brokers: 0 is not a number of brokers, 1 to 100 "
                "(see kafka-offsets serve --help)"
            ),
        ),
        (
            ["serve", "--brokers", "2", "--port", "65535"],
            "kafka-offsets: there are no 2 ports from 65535 on",
        ),
        (
            ["serve", "--brokers", "2", "--port", "0", "--metrics-port", "65535"],
            "kafka-offsets: there are no 2 ports from 65535 on",
        ),
        (
            ["serve", "--brokers", "2", "--set", "advertised.listeners=PLAINTEXT://here:9092"],
            (
                "kafka-offsets: advertised.listeners is for one broker: "
                "each broker of a cluster has its own address"
            ),
        ),
        (
            ["serve", "--brokers", "2", "--set", "broker.session.timeout.ms=99"],
            "kafka-offsets: broker.session.timeout.ms of a cluster is 100 or more",
        ),
        (
            ["serve", "--http", ":8080"],
            "kafka-offsets serve: argument --http: :8080 is not [HOST:]PORT (see kafka-offsets serve --help)",
        ),
        (
            ["serve", "--http", "0", "--brokers", "3"],
            (
                "kafka-offsets: --http serves one broker of this process, without --brokers and --zookeeper; "
                'POST /brokers with {"brokers": 3} starts a cluster'
            ),
        ),
        (
            ["serve", "--http", "0", "--verbose"],
            "kafka-offsets: --http keeps the requests, for GET /brokers/main/requests: --verbose is without it",
        ),
        (["serve", "--manual-clock"], "kafka-offsets: --manual-clock needs --http"),
        (["serve", "--instance", "a"], "kafka-offsets: --instance needs --http"),
        (
            ["serve", "--http", "0", "--metrics-port", "0"],
            "kafka-offsets: --http serves the metrics too, at /metrics: leave out --metrics-port",
        ),
        (
            ["serve", "--http", "0", "--http-token", ""],
            "kafka-offsets: the token of --http-token, or of KAFKA_OFFSETS_HTTP_TOKEN, is empty",
        ),
        (
            ["serve", "--prt", "29095"],
            (
                "kafka-offsets serve: unrecognized arguments: --prt 29095; did you mean --port? "
                "(see kafka-offsets serve --help)"
            ),
        ),
        (
            ["offsets", "list", "g", "--bootstrap-servr=h:1", "--bootstrap-server", "h:1"],
            (
                "kafka-offsets offsets list: unrecognized arguments: --bootstrap-servr=h:1; "
                "did you mean --bootstrap-server? (see kafka-offsets offsets list --help)"
            ),
        ),
        (
            ["check", "here", "there"],
            "kafka-offsets check: unrecognized arguments: there (see kafka-offsets check --help)",
        ),
        (
            ["groups", "reset", "g", "--to-offset", "x"],
            (
                "kafka-offsets groups reset: argument --to-offset: x is not a number "
                "(see kafka-offsets groups reset --help)"
            ),
        ),
        (["serve", "--config", "/no/such/file"], "kafka-offsets: /no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert refusal(capsys, *words) == line


def test_without_a_command_the_help_is_printed_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    help_ = capsys.readouterr().out
    assert "serve" in help_ and "inspect" in help_
    assert cli.main([]) == cli.CANNOT
    assert capsys.readouterr() == ("", help_)


def test_an_unknown_command_is_reported_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "server")
    assert "'server'" in line
    assert "serve" in line and "inspect" in line


@pytest.mark.parametrize(
    ("words", "name"),
    [(("server",), "serve"), (("groups", "descibe"), "describe"), (("offsets", "rest"), "reset")],
)
def test_a_similar_command_or_action_is_proposed(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], name: str
) -> None:
    assert f"; did you mean {name}? (see " in refusal(capsys, *words)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser, and those of its commands and actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


@pytest.mark.parametrize("parser", [*parsers(cli._parser(is_whole=True))], ids=lambda parser: parser.prog)
def test_the_help_of_a_command_says_what_it_does_and_what_it_takes(parser: argparse.ArgumentParser) -> None:
    assert parser.description
    actions = [each for each in parser._actions if not isinstance(each, argparse._SubParsersAction)]
    assert [each.metavar or each.option_strings for each in actions if not each.help] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed: apt-get install -y bash")
def test_bash_completes_commands_actions_options_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    lines = [
        ("comp",),
        ("groups", "des"),
        ("groups", "describe", "--mem"),
        ("serve", "--data-d"),
        ("completion", "z"),
    ]
    for words in lines:
        script += f"\nCOMP_WORDS=(kafka-offsets {' '.join(words)}); COMP_CWORD={len(words)}; COMPREPLY=()\n"
        script += f"_shtab_kafka_offsets kafka-offsets {words[-1]} x; echo ${{COMPREPLY[@]}}\n"
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["compact completion", "describe", "--members", "--data-dir", "zsh"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed: apt-get install -y bash")
def test_the_line_of_the_page_completes_the_command_in_bash(tmp_path: Path) -> None:
    (block,) = pages.blocks("groups.md", "bash")
    done = subprocess.run(
        ["bash"],
        input=f"{block.code}complete -p kafka-offsets",
        env=pages.environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith(" -F _shtab_kafka_offsets kafka-offsets\n")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed: apt-get install -y fish")
def test_fish_completes_commands_actions_options_and_their_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)  # it needs no package
    assert cli.main(["completion", "fish"]) == 0
    script = capsys.readouterr().out
    (tmp_path / "data").mkdir()
    (tmp_path / "offsets.csv").touch()
    for line, expected in (
        ("comp", ["compact", "completion"]),
        ("groups des", ["describe"]),
        ("groups describe --mem", ["--members"]),
        ("lag --sort ", ["group", "lag", "since"]),
        ("check d", ["data/"]),
        ("groups reset g --from-file ", ["data/", "offsets.csv"]),
        ("completion f", ["fish"]),
        ("topics ", ["alter", "configs", "create", "delete", "describe", "list"]),
    ):
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"{script}\ncomplete -C 'kafka-offsets {line}'"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(each.partition("\t")[0] for each in done.stdout.splitlines()) == expected, line


def test_completion_without_its_package_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == cli.CANNOT
    assert capsys.readouterr().err == "kafka-offsets: completion needs shtab: pip install shtab\n"


def test_a_port_in_use_is_reported_with_its_address(taken_port: int) -> None:
    line = served("--port", str(taken_port))
    assert (
        line
        == f"kafka-offsets: cannot listen on 127.0.0.1:{taken_port}: Address already in use: choose another with --port"
    )


def test_an_unknown_host_is_reported_with_its_address() -> None:
    line = served("--port", "0", "--host", "no.such.host.invalid")
    assert line.startswith("kafka-offsets: cannot listen on no.such.host.invalid:0: ")


def test_a_data_directory_that_is_a_file_is_reported_by_name(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("not a directory")
    line = served("--port", "0", "--data-dir", str(path))
    assert line == f"kafka-offsets: {path} is a file, not a directory"


def test_a_data_directory_that_cannot_be_made_is_reported_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = served("--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert line == f"kafka-offsets: cannot make the directory {tmp_path}/file/data: Not a directory"


def test_a_data_directory_of_another_broker_is_reported_by_name(tmp_path: Path) -> None:
    options = ["--port", "0", "--data-dir", str(tmp_path / "data")]
    first = subprocess.Popen([*SERVE, *options], stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        assert first.stderr is not None
        ready = next((line for line in first.stderr if "listening on " in line), None)
        assert ready is not None, "the first broker did not come up"
        assert (
            served(*options)
            == f"kafka-offsets: another broker uses the data directory {tmp_path / 'data'}: stop it first"
        )
    finally:
        first.terminate()
        first.communicate()
    assert first.returncode == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.EADDRINUSE, "error while attempting to bind"),
            "cannot listen on h:1: Address already in use: choose another with --port",
        ),
        (
            socket.gaierror(-2, "Name or service not known"),
            (
                "cannot listen on h:1: Name or service not known: no host of this network; a listener without a host "
                "listens on every interface"
            ),
        ),
        (
            BindError(OSError(errno.EADDRINUSE, "error while attempting to bind"), "h", 2),
            "cannot listen on h:2: Address already in use: choose another in listeners",
        ),
        (
            BindError(OSError(errno.EADDRINUSE, "error while attempting to bind"), "h", 1),
            "cannot listen on h:1: Address already in use: choose another with --port",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/data/.lock"), "/data/.lock: Permission denied"),
        (OSError("no number"), "cannot listen on h:1: no number"),
    ],
)
def test_an_error_of_the_system_is_reported_in_its_own_words(error: OSError, said: str) -> None:
    assert cli.os_error_text(error, "h", 1) == said


def test_options_override_the_keys_that_say_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[object, ...]] = []
    from kafka_offsets.broker.network import server_process

    def serve(
        config: object, host: str, port: int, data_directory: Path | None, *_: object, **__: object
    ) -> None:
        calls.append((host, port, data_directory))

    monkeypatch.setattr(server_process, "serve", serve)
    keys = ["serve", "--set", "listeners=PLAINTEXT://[::1]:1234", "--set", f"log.dirs={tmp_path}"]
    assert cli.main(["serve"]) == 0
    assert cli.main(keys) == 0
    assert cli.main([*keys, "--port", "0", "--host", "localhost", "--data-dir", "other"]) == 0
    assert calls == [
        ("127.0.0.1", 9092, None),
        ("::1", 1234, tmp_path),
        ("localhost", 0, Path("other")),
    ]


def test_keys_of_the_command_line_override_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: list[tuple[int, int]] = []
    from kafka_offsets.broker.config.keys import Config
    from kafka_offsets.broker.network import server_process

    def serve(config: Config, *_: object, **__: object) -> None:
        loaded.append((config.num_partitions, config.group_max_size))

    monkeypatch.setattr(server_process, "serve", serve)
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\ngroup.max.size=4\n")
    assert (
        cli.main(["serve", "--config", str(path), "--set", "num.partitions=5", "--set", "num.partitions=6"])
        == 0
    )
    assert loaded == [(6, 4)]


def test_the_package_is_the_command() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "kafka_offsets", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (made.returncode, made.stdout) == (0, f"kafka-offsets {__version__}\n")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kafka-offsets ")


def test_a_closed_output_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.closing(os.fdopen(writing, "wb", buffering=0)) as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "kafka_offsets.cli", "--version"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            cwd=REPOSITORY,
            check=False,
        )
    assert done.stderr == b""
    assert done.returncode == 141


def test_the_command_line_brings_in_no_more_than_it_needs() -> None:
    source = "import sys, kafka_offsets.cli; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    heavy = {
        "asyncio",
        "logging",
        "construct",
        "numpy",
        "cramjam",
        "re2",
        "xxhash",
        "hypothesis",
        "dataclasses",
        "inspect",
    }
    assert not heavy & set(done.stdout.split())
    assert not any(name.startswith("kafka_offsets.broker") for name in done.stdout.split())


def test_the_unit_for_systemd_starts_a_broker_with_options_that_exist() -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(REPOSITORY / "examples" / "kafka-offsets.service", encoding="utf-8")
    program, *words = unit["Service"]["ExecStart"].split()
    options = cli._parser().parse_args(words)
    assert program.endswith("bin/kafka-offsets")
    assert options.data_dir == Path("/var/lib") / unit["Service"]["StateDirectory"]
    assert options.log_format == "json"


def test_an_empty_data_directory_is_refused() -> None:
    assert "the empty string is not a directory" in served("--port", "0", "--data-dir", "")


def test_output_that_cannot_be_written_is_reported_in_one_line() -> None:
    path = DATA / "logs" / "classic" / "__consumer_offsets-0" / "00000000000000000000.log"
    for sink, code in ((Path("/dev/full"), 2), (None, 0)):
        with contextlib.ExitStack() as stack:
            command = [sys.executable, "-m", "kafka_offsets.cli", "inspect", str(path)]
            output = stack.enter_context(sink.open("w")) if sink else None
            done = subprocess.run(
                command if sink else ["sh", "-c", '"$@" >&-', "sh", *command],
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                cwd=REPOSITORY,
                check=False,
            )
        assert done.returncode == code, done.stderr
        assert done.stderr == (
            "kafka-offsets: cannot write the output: No space left on device\n" if sink else ""
        )


def test_a_process_without_descriptors_for_its_schemas_does_not_begin_to_listen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were read after that, and a broker that ran out of descriptors in its first milliseconds ended."""
    from kafka_offsets.protocol import messages

    def read_schemas() -> None:
        raise OSError(errno.EMFILE, "Too many open files", "/schemas/fetch.schema")

    monkeypatch.setattr(messages, "read_schemas", read_schemas)
    assert cli.main(["serve", "--port", "0"]) == 2
    assert capsys.readouterr().err == "kafka-offsets: /schemas/fetch.schema: Too many open files\n"
