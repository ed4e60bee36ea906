"""The two ways a command can fail; `cli.py` turns each into one line and an exit code."""


class UserError(Exception):
    """The input is wrong (exit code 2). The message says what, where, and what would be right."""


class WorkFailed(Exception):
    """The input was right but the work could not be done (exit code 1), for instance a loss that stays infinite."""
