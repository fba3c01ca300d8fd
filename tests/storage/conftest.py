from pathlib import Path

import pytest

from kafka_offsets.storage.files.files import DiskFiles, Files, MemoryFiles


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return DiskFiles(tmp_path) if request.param == "disk" else MemoryFiles()
