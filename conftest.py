"""Shapes in signatures are checked while tests run; one tiny trained run serves every test that needs one.

It stands here, not in tests/, because the examples in docstrings need it too.
"""

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from tests.workplace import Workplace

# Most of the tests' time is XLA compiling; programs here are small, and need not be fast.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
# One device, whoever asks first; the tests of several have processes of their own.
if "host_platform_device_count" not in os.environ["XLA_FLAGS"]:
    os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=1"

CHECKED = [
    "vaswani.model",
    "vaswani.kernels",
    "vaswani.decoding.incremental",
    "vaswani.training.loss",
    "vaswani.decoding.beam_search",
    "vaswani.decoding.attend",
]
hook = install_import_hook(CHECKED, "beartype.beartype")
hook.__enter__()

# 200 examples, the same each time; HYPOTHESIS_PROFILE=long draws 10,000 others at each run.
COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("suite", max_examples=200, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=10_000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

TINY = """
[data]
name = "tiny"
corpus = "toy"
splits = {}
valid = "valid"
tests = ["test"]
max_tokens = 64
vocab_size = 500
[data.toy]
train_pairs = 300
test_pairs = 12
[model]
N = 1
d_model = 16
d_ff = 32
h = 2
d_k = 8
d_v = 8
[train]
steps = 12
tokens_per_update = 512
row_length = 64
max_tokens_per_device = 256
warmup = 10
log_every = 2
valid_every = 6
valid_lines = 4
checkpoint_every = 3
[decode]
beam = 2
max_extra_tokens = 3
"""


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A directory that all processes of a test session share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(shared):
    """One for all tests, and none of the user's."""
    os.environ["XDG_CACHE_HOME"] = str(shared / "cache")
    from vaswani.devices import set_up_jax  # after the hook: it imports the model

    set_up_jax()


@pytest.fixture(scope="session")
def _trained(shared, compilation_cache) -> Path:
    path = shared / "trained"
    with FileLock(shared / "trained.lock"):
        if not path.exists():
            path.mkdir()
            (path / "tiny.toml").write_text(TINY)
            Workplace(path).vaswani("train", "tiny.toml")
    return path


@pytest.fixture
def trained(_trained, tmp_path) -> Workplace:
    """A copy of a workplace with tiny.toml, prepared/tiny and the finished runs/tiny: checkpoints 3, 6, 9 and 12."""
    shutil.copytree(_trained, tmp_path / "work")
    return Workplace(tmp_path / "work")


@pytest.fixture(autouse=True)
def _run_for_examples(request, monkeypatch):
    """The examples of the Python interface run in a directory that has a runs/toy."""
    if isinstance(request.node, pytest.DoctestItem) and request.path.name in ("api.py", "__init__.py"):
        workplace = request.getfixturevalue("trained")
        (workplace.path / "runs/tiny").rename(workplace.path / "runs/toy")
        monkeypatch.chdir(workplace.path)


@pytest.fixture
def prepared(_trained, tmp_path) -> Workplace:
    """A workplace with tiny.toml and prepared/tiny."""
    shutil.copytree(_trained, tmp_path / "work", ignore=shutil.ignore_patterns("runs"))
    return Workplace(tmp_path / "work")
