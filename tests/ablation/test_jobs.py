"""Jobs of a cluster, with a stand-in for submitit that records what it is given."""

import sys
from types import SimpleNamespace

import pytest

from vaswani.ablation import jobs
from vaswani.errors import UserError, WorkFailed


class Executor:
    """One job, which ends as `outcome` says."""

    def __init__(self, folder):
        self.folder, self.parameters, self.outcome = folder, {}, 0

    def update_parameters(self, **parameters):
        if "nonsense" in parameters:
            raise ValueError("Unavailable parameter(s): ['nonsense']\nValid parameters are: …")
        self.parameters |= parameters

    def submit(self, function, command, directory, log):
        self.call = function, command, directory, log
        if self.parameters.get("partition") == "unreachable":
            raise RuntimeError("sbatch: error: Unable to contact slurm controller (connect failure)")
        if self.parameters.get("partition") == "none":
            raise RuntimeError(
                "sbatch: error: invalid partition specified: none\nsbatch: error: Batch job submission failed"
            )

        def result():
            if isinstance(self.outcome, Exception):
                raise self.outcome
            return self.outcome

        return SimpleNamespace(done=lambda: self.outcome is not None, result=result)


@pytest.fixture
def executors(monkeypatch):
    made = []
    monkeypatch.setitem(
        sys.modules, "submitit", SimpleNamespace(SlurmExecutor=lambda folder: made.append(Executor(folder)) or made[-1])
    )
    return made


def test_a_job_has_the_options_its_name_and_the_command(executors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = jobs.slurm(tmp_path / "slurm", "partition=gpu,gpus_per_node=1")
    job = start("A1-seed0", ["ablate-run", "tiny.toml"], tmp_path / "log.txt")
    (executor,) = executors
    assert executor.parameters == {
        "time": 24 * 60, "stderr_to_stdout": True, "partition": "gpu", "gpus_per_node": 1, "job_name": "A1-seed0",
    }  # fmt: skip
    command = [sys.executable, "-m", "vaswani", "ablate-run", "tiny.toml"]
    assert executor.call == (jobs.run_logged, command, str(tmp_path), str(tmp_path / "log.txt"))
    for outcome, code in ((None, None), (0, 0), (143, 143)):
        executor.outcome = outcome
        assert job.exit_code() == code and job.failure == ""


DASHES = "-" * 40


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "Job 7 (task: 0) with path slurm/7_0_result.pkl\nhas not produced any output (state: TIMEOUT)\n"
            f"Error stream produced:\n{DASHES}\nslurmstepd: error\n*** JOB 7 CANCELLED DUE TO TIME LIMIT ***\n",
            "Job 7 (task: 0) with path slurm/7_0_result.pkl has not produced any output (state: TIMEOUT) "
            "Error stream produced: *** JOB 7 CANCELLED DUE TO TIME LIMIT ***",
        ),
        (
            f"Job (task=0) failed during processing with trace:\n{DASHES}\nTraceback\nOSError: no log\n{DASHES}\nSee",
            "Job (task=0) failed during processing with trace: OSError: no log",
        ),
        ("", "RuntimeError"),
    ],
)
def test_why_the_cluster_ended_a_job_is_kept(executors, tmp_path, message, reason):
    job = jobs.slurm(tmp_path, "")("A1-seed0", [], tmp_path / "log.txt")
    executors[0].outcome = RuntimeError(message)
    assert job.exit_code() == 1 and job.failure == reason


def test_what_a_node_runs_appends_to_the_log(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    print_where = "import os, sys; print(os.getcwd()); sys.exit(3)"
    assert jobs.run_logged([sys.executable, "-c", print_where], str(tmp_path), str(log)) == 3
    assert log.read_text() == f"before\n{tmp_path}\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [("gpu", "'gpu' is not KEY=VALUE"), ("nonsense=1", r"Unavailable parameter\(s\): \['nonsense'\]$")],
)
def test_options_that_are_none(executors, tmp_path, options, says):
    with pytest.raises(UserError, match=says):
        jobs.slurm(tmp_path, options)


def test_a_job_that_is_refused(executors, tmp_path):
    start = jobs.slurm(tmp_path, "partition=none")
    with pytest.raises(UserError, match=r"--slurm: sbatch: error: invalid partition specified: none$"):
        start("base-seed0", [], tmp_path / "log.txt")
    start = jobs.slurm(tmp_path, "partition=unreachable")
    with pytest.raises(WorkFailed, match="--slurm: sbatch: error: Unable to contact slurm controller"):
        start("base-seed0", [], tmp_path / "log.txt")


def test_without_submitit(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match="needs submitit: scripts/setup"):
        jobs.slurm(tmp_path, "")
