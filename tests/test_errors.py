from vaswani.errors import UserError, WorkFailed


def test_an_error_is_one_line_without_control_characters():
    for kind in (UserError, WorkFailed):
        error = kind("a  b\nc: \x1b[2J\x00 \u2028größer 中文 \ud800 \U0001f600")
        assert str(error) == r"a b c: \x1b[2J\x00 größer 中文 \ud800 " + "\U0001f600"
