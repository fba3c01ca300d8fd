"""A small file of a data directory that is replaced as a whole, and is unchanged when the disk refuses."""

from contextlib import suppress

from kafka_offsets.errors import StorageError
from kafka_offsets.storage.files.files import Files, check_small


class KeptFile:
    """One file at the top of a data directory.

    content  the current content, None when the file does not exist
    private  only the owner of the directory may read it

    A disk that refuses a sync may have given the name to the new content already. Refused content must not be in force
    after a restart, and the next content may equal the old one. So the old content is written back at once or, when the
    disk refuses that too, by the next call.
    """

    def __init__(self, files: Files, path: str, *, exists: bool, private: bool = False) -> None:
        """Read it. Raises StorageError."""
        self._files = files
        self._private = private
        self._path = path
        self._is_uncertain = False
        if exists and private:
            files.open_private(path).close()  # from now on only the owner can read it
        self.content = files.read_all(path) if exists else None

    def replace(self, content: bytes) -> None:
        """Replace the content, with a sync if it changes. StorageError leaves it unchanged."""
        if content == self.content and not self._is_uncertain:
            return
        check_small(self._path, len(content))  # the next start would refuse to read it
        try:
            self._files.replace_atomically(self._path, content, private=self._private)
        except StorageError:
            self._is_uncertain = True
            with suppress(StorageError):  # the next call tries again
                self.restore()
            raise
        self.content, self._is_uncertain = content, False

    def restore(self) -> None:
        """Write the current content again if a refusal has left the disk in an unknown state. Raises StorageError."""
        if not self._is_uncertain:
            return
        if self.content is not None:
            self._files.replace_atomically(self._path, self.content, private=self._private)
        elif self._files.exists(self._path):
            self._files.remove(self._path)
            self._files.sync_directory("")
        self._is_uncertain = False
