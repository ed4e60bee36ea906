"""A long training and a long translation hold no more memory and no more files after a while than before."""

import measure_growth

LEAST_LEAK = 12  # MiB in 200 updates or batches; what the allocator keeps goes up and down by less


def test_memory_and_handles_stay_as_they_are(prepared, monkeypatch):
    """After the first hundred, with a validation each 50 updates."""
    for name, value in prepared.environment.items():
        monkeypatch.setenv(name, value)
    settings = ["--train.steps", "300", "--train.valid-every", "50", "--train.checkpoint-every", "50"]
    for uses in (
        list(measure_growth.training(["tiny.toml", *settings], prepared.path)),
        list(measure_growth.translating(300, prepared.path)),
    ):
        assert [use.count for use in uses] == [100, 200, 300]
        assert uses[0].handles == uses[1].handles == uses[2].handles, uses
        assert uses[2].mib - uses[0].mib < LEAST_LEAK, uses
