"""The rooms of kafka_offsets whose code is changed, and the tests that judge each of them."""

from pathlib import Path
from typing import NamedTuple

from tests.conftest import REPOSITORY


class Room(NamedTuple):
    """A folder of kafka_offsets.

    judges    files and folders with tests; those that need Java are not run
    left_out  parts of the names of tests that do not judge
    last      tests for what no judge has seen, in a process in which the change is from its first import on, and in
              the processes that it starts
    """

    judges: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


ROOMS = {
    "coordinator": Room(
        judges=(
            "tests/coordinator",
            "tests/differential",
            "tests/claims",
            "tests/broker/api/test_commit_options.py",
            "tests/broker/api/test_conditional_commits.py",
            "tests/broker/groups/test_expiry.py",
            "tests/broker/config/test_group_config.py",
            "tests/broker/groups/test_loading.py",
            "tests/simulation/test_simulation.py",
        ),
        left_out=(
            # They weigh memory; what the table holds is compared with an oracle by others.
            "test_an_entry_costs_few_bytes",
            "test_an_entry_takes_at_most_64_bytes",
            # They start processes or sockets, where the mutant is not.
            "test_a_seed_is_the_same_run_in_every_process",
            "test_numpy_is_imported_for_a_long_log_alone",
            "tests/claims/test_consumer_rewrite.py",
            "test_an_admin_deletes_offsets",
            # Size, of what smaller tests look at too.
            "test_many_more_names_and_keys_than_tables_begin_with",
            "test_a_long_batch_is_read_as_many_short_ones_are",
            "test_a_thousand_members_and_ten_thousand_groups_cost_no_squares",
        ),
    ),
    "columns": Room(
        judges=(
            "tests/columns",
            "tests/storage/segments/test_segment_columns.py",
            "tests/storage/cleaner/test_compaction.py",
            "tests/storage/cleaner/test_compaction_properties.py",
            "tests/broker/groups/test_loading.py",
            "tests/spark/test_columnar.py",
        ),
        left_out=("test_numpy_is_imported_for_a_long_log_alone",),
        # Its tables are computed when it is imported.
        last=("tests/storage/segments/test_segment_columns.py",),
    ),
    "storage": Room(
        judges=("tests/storage",),
        left_out=(
            # Thousands of states each, of what others look at in few.
            "test_every_flipped_bit_that_stops_a_start_is_found_where_the_start_stops",
            "tests/storage/crash/test_flipped_bits.py",
            "tests/storage/crash/test_crash_states.py",
            "tests/storage/cleaner/test_compaction_crash.py",
        ),
    ),
    "broker": Room(
        judges=("tests/broker", "tests/test_check_command.py", "tests/test_compact_command.py"),
        last=("tests/broker/core/test_metrics.py",),
    ),
    "protocol": Room(
        judges=("tests/protocol", "tests/broker/api/test_conditional_commits.py"),
        last=("tests/protocol", "tests/properties/test_codecs.py"),
    ),
    "replication": Room(judges=("tests/replication",)),
    "security": Room(
        judges=(
            "tests/security",
            "tests/broker/gates/test_authentication.py",
            "tests/broker/gates/test_authorization.py",
            "tests/broker/access/test_delegation_tokens.py",
            "tests/broker/gates/test_oauthbearer.py",
            "tests/broker/api/test_quotas_and_credentials.py",
            "tests/broker/access/test_tls.py",
        ),
    ),
    "testing": Room(
        judges=("tests/testing", "tests/broker/core/test_disk_errors.py"),
        # pytest runs the plugin in processes of its own.
        left_out=("tests/testing/test_plugin.py",),
        last=("tests/testing/test_plugin.py",),
    ),
    "client": Room(judges=("tests/client",)),
    "commands": Room(
        judges=(
            "tests/client/test_acls_command.py",
            "tests/client/test_group_commands.py",
            "tests/client/test_offsets_command.py",
            "tests/client/test_records_commands.py",
            "tests/client/test_topics_command.py",
            "tests/client/test_transactions_command.py",
            "tests/test_check_command.py",
            "tests/test_cli.py",
            "tests/test_compact_command.py",
            "tests/test_migrate_command.py",
            "tests/test_produce_command.py",
            "tests/test_progress.py",
            "tests/test_serve_options.py",
            "tests/test_terminal.py",
        ),
        last=("tests/test_lifetime.py", "tests/test_cli.py", "tests/test_serve_options.py"),
    ),
    "metadata": Room(
        judges=(
            "tests/metadata",
            "tests/broker/nodes",
            "tests/broker/replicas",
            "tests/testing/test_cluster.py",
        )
    ),
    "http": Room(
        judges=(
            "tests/http/test_app.py",
            "tests/http/test_guard.py",
            "tests/http/test_operations.py",
            "tests/http/test_values.py",
        ),
        last=("tests/http/test_openapi.py", "tests/http/test_serve.py"),
    ),
    "zookeeper": Room(
        judges=(
            "tests/zookeeper/test_contract.py",
            "tests/zookeeper/test_cluster_store.py",
            "tests/zookeeper/test_election.py",
            "tests/broker/offset_manager",
            "tests/broker/nodes/test_zookeeper_nodes.py",
        ),
    ),
    "inspect": Room(judges=("tests/inspect",), last=("tests/inspect/test_command.py",)),
    "diagnosis": Room(judges=("tests/diagnosis", "tests/testing/test_why.py")),
    "assignors": Room(
        judges=("tests/client/test_assignors.py", "tests/coordinator/consumer", "tests/testing")
    ),
    "spark": Room(
        judges=(
            "tests/spark/test_columnar.py",
            "tests/spark/test_live.py",
            "tests/spark/test_progress.py",
            "tests/spark/test_source_streams.py",
            "tests/spark/test_table.py",
        ),
        # Spark runs most of it in workers, which are processes of their own.
        last=(
            "tests/spark/test_imports.py",
            "tests/spark/test_progress.py",
            "tests/spark/test_source.py",
            "tests/spark/test_state.py",
            "tests/spark/test_expiring.py",
            "tests/spark/test_history.py",
            "tests/spark/test_lagging.py",
            "tests/spark/test_merging.py",
            "tests/spark/test_command.py",
        ),
    ),
}


def modules_of(room: str) -> list[Path]:
    """Return the files of a room."""
    return sorted(REPOSITORY.glob(f"kafka_offsets/{room}/**/*.py"))
