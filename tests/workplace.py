"""`vaswani` as a user runs it: a process of its own, in a directory of its own."""

import os
import subprocess
import sys
from pathlib import Path


class Workplace:
    """A directory to work in, and `vaswani` run in it as a process of its own."""

    def __init__(self, path: Path):
        self.path = path
        self.environment = os.environ | {"PYTHONUNBUFFERED": "1"}

    def vaswani(self, *arguments: str, code: int = 0, **options) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "vaswani", *arguments]
        options = {"cwd": self.path, "env": self.environment, "capture_output": True, "encoding": "utf-8"} | options
        done = subprocess.run(command, **options)
        assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments: str, **options) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "vaswani", *arguments]
        options = {"cwd": self.path, "env": self.environment, "stderr": subprocess.PIPE, "encoding": "utf-8"} | options
        return subprocess.Popen(command, **options)

    def refused(self, *arguments: str, **options) -> str:
        """The one line that wrong input gets, last on stderr, with exit code 2."""
        done = self.vaswani(*arguments, code=2, **options)
        lines = [line for line in done.stderr.split("\n") if line.startswith("vaswani: ")]
        assert len(lines) == 1 and done.stderr.endswith(lines[0] + "\n"), done.stderr
        return lines[0]
