"""A run belongs to the command that changes it; a second one says who holds it, and readers are not held up."""


def test_while_a_run_is_trained_others_read_it_and_do_not_change_it(trained):
    trained.vaswani("average", "runs/tiny", "--last", "2")
    first = trained.start("train", "tiny.toml", "--train.steps", "1000000")
    try:
        next(line for line in first.stderr if line.startswith("step"))
        for command in (
            ["average", "runs/tiny"],
            ["evaluate", "runs/tiny", "--checkpoint", "averaged"],
        ):
            assert f"runs/tiny: in use by process {first.pid} on " in trained.refused(*command)
        text = trained.path / "in.txt"
        text.write_text("Two dogs.\n")
        with open(text) as file:
            assert trained.vaswani("translate", "runs/tiny", stdin=file).stdout.count("\n") == 1
        assert first.poll() is None
    finally:
        first.kill()
        first.communicate()
