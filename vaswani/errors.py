"""The two ways a command can fail; `cli.py` turns each into one line and an exit code."""


class _OneLine(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # libraries' messages, quoted in ours, may have several


class UserError(_OneLine):
    """The input is wrong (exit code 2). The message says what, where, and what would be right."""


class WorkFailed(_OneLine):
    """The input was right but the work could not be done (exit code 1), for instance a loss that stays infinite."""
