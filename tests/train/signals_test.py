import signal
import subprocess
import sys
import threading

import pytest

from attn_jax.train.signals import Interrupted, Signals, StopAsked


def test_the_first_is_heard_the_second_is_the_systems_and_all_is_as_before_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with Signals() as signals:
        assert signals.received is None
        signal.raise_signal(signal.SIGINT)
        assert signals.received is signal.SIGINT
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is before


def test_disposable_work_ends_at_once():
    reached = []

    def work(signals, before):
        with signals.disposable():
            before()
            reached.append("the end")

    with Signals() as signals:
        with pytest.raises(StopAsked):
            work(signals, lambda: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(StopAsked):
            work(signals, lambda: None)  # begun after the signal
    assert not reached


def test_in_another_thread_nothing_is_heard_and_nothing_breaks():
    before = signal.getsignal(signal.SIGTERM)

    def enter():
        with Signals():
            assert signal.getsignal(signal.SIGTERM) is before

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()


def test_uncaught_it_ends_the_process_with_zero():
    assert Interrupted("saved").code == 0
    assert str(Interrupted("saved")) == "saved"


@pytest.mark.slow
def test_two_signals_that_come_together_are_a_first_and_a_second():
    program = """if True:
        import os, signal
        both = signal.SIGTERM, signal.SIGINT
        signal.pthread_sigmask(signal.SIG_BLOCK, both)
        from attn_jax.train.signals import Signals
        with Signals():
            for number in both:
                os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
            print("survived")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode in (-signal.SIGTERM, -signal.SIGINT)
    assert done.stdout == done.stderr == ""
