"""What the command line says of itself, for tests of the documents."""

import io
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache

from vaswani import cli


@cache
def help_of(command: str) -> str:
    """What `vaswani COMMAND --help` prints; nothing where there is no such command."""
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()), suppress(SystemExit):
        cli.run([command, "--help"])
    return output.getvalue()
