"""Schema files of a package that is in a zip file, as Spark gives it to executors (`--py-files`)."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from kafka_offsets import schema_files
from tests.conftest import REPOSITORY

READ_ALL = """
import kafka_offsets.schema_files as files
from kafka_offsets.protocol import messages
files.read_all()
print(files.__file__, len(files.names()), messages.find("GroupMetadataValue").SCHEMA.name)
"""


def test_schemas_are_read_from_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for path in (REPOSITORY / "kafka_offsets").rglob("*.py"):
            written.write(path, path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "schemas").iterdir():
            written.write(path, f"kafka_offsets/schemas/{path.name}")
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    file, count, name = done.stdout.split()
    assert file.startswith(str(archive)) and int(count) == len(schema_files.names())
    assert name == "GroupMetadataValue"
