import dataclasses
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import pytest

from attn_jax.data.files import writing
from attn_jax.train import NonFinite, Unreadable, WorkdirBusy
from experiments.command_line import Experiment, parse, run
from experiments.overrides import UsageError


@dataclasses.dataclass
class Optimizer:
    learning_rate: float = 0.1
    warmup: int = 10
    nesterov: bool = False


@dataclasses.dataclass
class Config:
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    name: str = ""
    seed: int = 0


EXPERIMENT = Experiment(
    "toy", Config, modes=("train", "evaluate"), options={"input": "a file"}, help="A toy."
)


@pytest.fixture(autouse=True)
def config_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.py").write_text(
        "from experiments.command_line import variant\n"
        "from tests.experiments.command_line_test import Config\n"
        "def get_config(name='small'):\n"
        "    return Config(name=variant(name, ['small', 'large']))\n"
    )
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "other.py").write_text("def get_config(): return 3\n")


def test_a_config_its_variant_and_its_overrides_arrive_typed():
    argv = ["--config=toy.py:large", "--config.optimizer.learning_rate=1", "--config.seed", "7"]
    command = parse(EXPERIMENT, [*argv, "--config.optimizer.nesterov", "--mode=evaluate"])
    assert command.config == Config(Optimizer(1.0, 10, True), "large", 7)
    assert isinstance(command.config.optimizer.learning_rate, float)
    assert (command.mode, command.options) == ("evaluate", {"input": None})
    assert command.workdir == Path("runs/toy/toy-large")


def test_the_workdir_is_named_after_the_config_unless_it_is_given():
    assert parse(EXPERIMENT, ["--config", "toy.py"]).workdir == Path("runs/toy/toy")
    assert parse(EXPERIMENT, ["--config=toy.py", "--workdir=a/b"]).workdir == Path("a/b")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            "--config=toy.py --config.optimizer.lerning_rate=1",
            "mean --config.optimizer.learning_rate?",
        ),
        ("--config=toy.py --config.optimiser.warmup=1", "mean --config.optimizer.warmup?"),
        ("--config=toy.py --config.optimiser.warmpu=1", "mean --config.optimizer.warmup?"),
        ("--config=toy.py --config.warmup=1", "did you mean --config.optimizer.warmup?"),
        ("--config=toy.py --config.zzz=1", "no field 'zzz'; there are optimizer, name, seed"),
        ("--config=toy.py --config.seed.x=1", "no field 'seed.x'"),
        ("--config=toy.py --config.optimizer=1", "is a section; its fields are learning_rate"),
        (
            "--config=toy.py --config.seed=1.5",
            "--config.seed takes an integer, such as 0; given '1.5'",
        ),
        ("--config=toy.py --config.optimizer.learning_rate=x", "takes a number, such as 0.1"),
        ("--config=toy.py --config.optimizer.nesterov=x", "takes true or false, such as False"),
        ("--config=toy.py --config.seed=-1", "--config.seed is from 0 to 2**32 - 1; given -1"),
        ("--config=toy.py --config.seed=99999999999999999999", "is from 0 to 2**32 - 1"),
        ("--config=toy.py --config.seed", "Missing value for flag --config.seed"),
        ("--config=toy.py:huge", "no variant 'huge'; there are small, large"),
        ("--config=missing.py", "no config file missing.py"),
        ("--config=empty.py", "empty.py has no function get_config"),
        ("--config=.", "no config file ."),
        ("--config=other.py:x", "other.py has no variants"),
        ("--config=other.py", "other.py is not a config of experiments.toy"),
        ("--config.seed=1", "which config?"),
        ("--config=toy.py --wrkdir=x", "did you mean: workdir"),
        ("--config=toy.py --mode=trian", "<train|evaluate>"),
        ("--config=toy.py stray", "cannot understand 'stray'"),
        ("--config=toy.py --workdir=", "--workdir= is empty"),
        ("", "which config?"),
    ],
)
def test_what_cannot_be_understood_is_one_line_and_exit_code_2(argv, message, capsys):
    def never(command):
        raise AssertionError("should not have been run")

    assert run(EXPERIMENT, never, argv.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m experiments.toy: ")
    assert err.count("\n") == 1
    assert message.lower() in err.lower()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("two\nlines"), 2),
        (FileNotFoundError(2, "none", "x"), 2),
        (Unreadable("broken"), 2),
        (WorkdirBusy("in use"), 2),
        (NonFinite("step 3"), 1),
    ],
)
def test_a_users_error_is_one_line_and_a_fault_is_a_traceback(error, code, capsys):
    def fail(command):
        raise error

    assert run(EXPERIMENT, fail, ["--config=toy.py"]) == code
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(type(error)):
        run(EXPERIMENT, fail, ["--config=toy.py", "--traceback"])
    with pytest.raises(ZeroDivisionError):
        run(EXPERIMENT, lambda command: print(1 / 0), ["--config=toy.py"])


def test_told_to_end_it_leaves_nothing_half_written(tmp_path):
    def wait(command):
        with writing(tmp_path / "out"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    before = signal.getsignal(signal.SIGTERM)
    assert run(EXPERIMENT, wait, ["--config=toy.py"]) == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert list(tmp_path.glob(".*.tmp")) == []
    assert not (tmp_path / "out").exists()


def test_where_it_happened_is_told_with_what_happened(capsys):
    def fail(command):
        error = ValueError("these hold ids that are none:\n  source 17: 99\n  source 20: 98")
        error.add_note("while the batch of step 4 was drawn")
        raise error

    assert run(EXPERIMENT, fail, ["--config=toy.py"]) == 2
    told = "ids that are none: source 17: 99; source 20: 98; while the batch of step 4 was drawn\n"
    assert capsys.readouterr().err.endswith(told)


def test_a_warning_is_one_line_without_its_place_in_the_code(capsys):
    def warn(command):
        sys.stderr.write(warnings.formatwarning("3 lines are blank", UserWarning, "a.py", 7))

    assert run(EXPERIMENT, warn, ["--config=toy.py"]) == 0
    assert capsys.readouterr().err == "python -m experiments.toy: 3 lines are blank\n"
    assert "a.py:7" in warnings.formatwarning("elsewhere", UserWarning, "a.py", 7)


def test_interruptions_and_readers_who_leave_are_no_errors(capfd):
    def interrupted(command):
        raise KeyboardInterrupt

    assert run(EXPERIMENT, interrupted, ["--config=toy.py"]) == 130
    assert capfd.readouterr() == ("", "")


def test_help_lists_flags_and_with_a_config_its_fields(capsys):
    assert run(EXPERIMENT, print, ["--help"]) == 0
    assert "--workdir" in capsys.readouterr().out
    assert run(EXPERIMENT, print, ["--config=toy.py", "--config.seed=4", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--config.optimizer.warmup=10" in out
    assert "--config.seed=4" in out
    assert out.startswith("python -m experiments.toy")


def test_usage_errors_are_value_errors():
    with pytest.raises(UsageError):
        parse(EXPERIMENT, [])
    assert issubclass(UsageError, ValueError)
    assert os.path.exists("toy.py")
