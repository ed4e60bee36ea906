"""The versions that a run is made with."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "sentencepiece", "sacrebleu")


def versions() -> dict[str, str | None]:
    """Versions of Python, the platform and the packages that results depend on; the git commit where there is one."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: _version(name) for name in ("vaswani", *_PACKAGES)},
        "commit": _commit(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # an installed package may lie inside a repository that is not ours
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
