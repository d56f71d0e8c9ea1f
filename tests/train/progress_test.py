import io

from attn_jax.train.progress import Bar, Lines, clock, described, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_and_a_file_gets_lines():
    assert isinstance(progress(3, io.StringIO()), Lines)
    bar = progress(3, Terminal())
    assert isinstance(bar, Bar)
    bar.close()


def test_a_bar_shows_numbers_and_leaves_what_is_said():
    terminal = Terminal()
    bar = Bar(100, terminal)
    bar.update(50, {"loss": 2.5}, 61.0)
    bar.say("validation [1]")
    bar.close()
    assert "50/100" in terminal.getvalue()
    assert "loss 2.5" in terminal.getvalue()
    assert "validation [1]" in terminal.getvalue()


def test_numbers_and_times_read_well():
    assert described({"gradient_norm": 0.00012341}) == "gradient norm 0.0001234"
    assert clock(59.6) == "1:00"
    assert clock(7325) == "2:02:05"
