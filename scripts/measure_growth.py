"""Whether memory and file handles grow: many updates with validations, then many batches translated by one process.

python scripts/measure_growth.py configs/toy.toml --train.steps 2000 --train.valid-every 100
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

VASWANI = (sys.executable, "-m", "vaswani")
SHOWN = (1, 2, 5, 10, 15, 20)
"""Hundreds of updates and batches that the table has."""


class Use(NamedTuple):
    """What a process holds."""

    count: int
    """Updates or batches made."""
    mib: float
    """Resident memory."""
    handles: int
    """Open files, pipes and sockets."""


def use_of(process: int, count: int) -> Use:
    status = Path(f"/proc/{process}/status").read_text()
    kib = int(re.search(r"VmRSS:\s*(\d+)", status)[1])  # type: ignore[index]
    return Use(count, kib / 1024, len(list(Path(f"/proc/{process}/fd").iterdir())))


def training(arguments: Sequence[str], directory: Path) -> Iterator[Use]:
    """Trains in `directory`; yields what the process holds after each 100 updates."""
    command = [*VASWANI, "train", *arguments, "--run", "runs/growth", "--train.log-every", "100"]
    with subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr
        for line in process.stderr:
            if step := re.match(r"step ([\d,]+)/", line):
                yield use_of(process.pid, int(step[1].replace(",", "")))
    assert process.returncode == 0, f"exit code {process.returncode}"


def translating(batches: int, directory: Path) -> Iterator[Use]:
    """Translates line by line, each a batch of its own; yields what the process holds after each 100."""
    command = [*VASWANI, "translate", "runs/growth", "--checkpoint", "last"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": directory, "encoding": "utf-8"}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin and process.stdout
        for i in range(1, batches + 1):
            process.stdin.write(f"{i} black dogs see the house.\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n"), "no translation"
            if i % 100 == 0:
                yield use_of(process.pid, i)
        process.stdin.close()
    assert process.returncode == 0, f"exit code {process.returncode}"


def main(arguments: Sequence[str]) -> None:
    arguments = [str(Path(arguments[0]).resolve()), *arguments[1:]]
    with tempfile.TemporaryDirectory() as directory:
        for what, uses in (
            ("updates", training(arguments, Path(directory))),
            ("batches", translating(100 * SHOWN[-1], Path(directory))),
        ):
            print(f"| {what} | MiB resident | handles |\n|---|---|---|")
            for use in uses:
                if use.count // 100 in SHOWN:
                    print(f"| {use.count:,} | {use.mib:.0f} | {use.handles} |", flush=True)
            print()


if __name__ == "__main__":
    main(sys.argv[1:])
