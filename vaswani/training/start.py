"""What a training starts from: a new run directory, a run's own checkpoint, or the parameters of another run."""

import shutil
from typing import Any

from vaswani.config import other_settings
from vaswani.console import say
from vaswani.data.prepared_corpus import PreparedCorpus, same_text
from vaswani.data.tokenizer import Tokenizer, check_same_tokenizer
from vaswani.errors import UserError
from vaswani.files import atomic_path
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config
from vaswani.training.train_step import Params, TrainState


def enter_run(config: Config, run: RunDirectory, corpus: PreparedCorpus) -> None:
    """Makes the run directory, or checks that an existing one belongs to the same experiment.

    A directory without a checkpoint may come from a start that was refused. The new start may use other settings.

    Raises:
        UserError: the run has other settings, another tokenizer, or only averaged parameters.
    """
    saved = checkpoints.steps(run.checkpoints)
    averaged = checkpoints.has_averaged(run)
    if saved and not run.exists():
        raise UserError(f"{run.config_path}: is missing, but the run has checkpoints; choose another run with --run")
    if run.exists() and (saved or averaged):
        run.check_same(config)
        if not saved:
            raise UserError(
                f"{run.path}: has only averaged parameters and no optimiser state, so training cannot go on; "
                f"to fine-tune them, start another run with --init {run.path}"
            )
        tokenizer, advice = Tokenizer.load(run.tokenizer_path), "choose the corpus it was trained on, or another --run"
        check_same_tokenizer(run.tokenizer_path, tokenizer.checksum, corpus.tokenizer.checksum, corpus.path, advice)
    else:
        run.path.mkdir(parents=True, exist_ok=True)
        with atomic_path(run.tokenizer_path) as path:
            shutil.copyfile(corpus.path / "tokenizer.model", path)
    run.create(config)


def load_checkpoint(
    config: Config, run: RunDirectory, corpus: PreparedCorpus, structure: TrainState
) -> tuple[TrainState, dict[str, Any]] | None:
    """The newest undamaged checkpoint: its arrays, placed as in `structure`, and its metadata. None if there is none.

    Raises:
        UserError: the checkpoint belongs to another model, other settings or another text.
    """
    newest = checkpoints.load_newest(run.checkpoints, structure._asdict(), warn=say)
    if newest is None:
        return None
    step, arrays, meta = newest
    if other := other_settings(meta.get("settings", {}), config):
        raise UserError(
            f"{run.checkpoints / str(step)}: belongs to another run ({other}); remove it to go on without it"
        )
    if not same_text(meta.get("corpus"), corpus.training_text()):
        raise UserError(
            f"{run.path}: was trained on another text than {corpus.path} has now; "
            "choose the corpus it was trained on, or another run with --run"
        )
    return TrainState(**arrays), meta


def parameters_of(init: RunDirectory, corpus: PreparedCorpus, structure: Params) -> Params:
    """The parameters of another run, for fine-tuning: the averaged ones if it has them, else the last ones.

    Raises:
        UserError: the run has another tokenizer or another model.
    """
    tokenizer = Tokenizer.load(init.tokenizer_path)
    advice = f"prepare the corpus with it: --data.tokenizer {init.tokenizer_path} --data.name NEW_NAME"
    check_same_tokenizer(init.tokenizer_path, tokenizer.checksum, corpus.tokenizer.checksum, corpus.path, advice)
    params, _, label = checkpoints.load_chosen_params(init, "auto", structure)
    say(f"starting from the parameters of {init.path} ({label})")
    return params
