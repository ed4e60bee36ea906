"""Kills a preparation before each of its file operations; `test_prepare.py` runs this in a process without threads.

    python -m tests.data.killed TEXT PLACE EVERY

Prepares the corpus of the directory TEXT below PLACE, killed before every EVERY-th file operation, and then once more
undisturbed: the files must be those of a preparation that was never killed. The same for adding a test set. Prints how
many kills were survived.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from tests.data.texts import configuration
from vaswani.config import Config
from vaswani.data.prepare import prepare

OPERATIONS = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir")


def run(config: Config, root: Path, kill_at: int | None = None) -> int:
    """Prepares in a process of its own, killed before file operation `kill_at`. Returns the signal that ended it."""
    process = os.fork()
    if process == 0:
        operations = 0

        def count(event: str, arguments: tuple) -> None:
            nonlocal operations
            if event in OPERATIONS and str(arguments[0]).startswith(str(root)):
                operations += 1
                if operations == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        prepare(config, root)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def survive(config: Config, root: Path, start: Path | None, every: int) -> int:
    """Kills until a preparation ends before the kill is due. `start` is the corpus that exists before, if any."""
    undisturbed, place = root / "undisturbed", root / "killed"
    for directory in (undisturbed, place):
        if start:
            shutil.copytree(start, directory / "small")
    assert run(config, undisturbed) == 0
    expected = contents(undisturbed / "small")
    before = contents(start) if start else {}
    kills = 0
    while run(config, place, kill_at=1 + every * kills) == -signal.SIGKILL:
        kills += 1
        if (place / "small").exists():  # whole, as it was or as it will be
            left = {
                name: content for name, content in contents(place / "small").items() if not name.startswith(".tmp-")
            }
            assert left["manifest.json"] in (before.get("manifest.json"), expected["manifest.json"])
            assert all(left[name] == content for name, content in before.items() if name != "manifest.json")
        assert run(config, place) == 0
        assert contents(place / "small") == expected
        assert {path.name for path in place.iterdir()} <= {"small", ".small.lock"}
        shutil.rmtree(place)
        if start:
            shutil.copytree(start, place / "small")
    return kills


if __name__ == "__main__":
    text, place, every = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    built = survive(configuration(text), place / "building", None, every)
    start = place / "building" / "undisturbed" / "small"
    added = survive(configuration(text, tests=("test", "more")), place / "adding", start, every)
    print(built, added)
