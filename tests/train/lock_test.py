import subprocess
import sys
import threading

import pytest

from attn_jax.train.lock import WorkdirBusy, hold


def test_another_thread_is_refused_until_the_first_is_done(tmp_path):
    refused = []

    def ask():
        try:
            with hold(tmp_path):
                pass
        except WorkdirBusy as error:
            refused.append(str(error))

    def ask_elsewhere():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()

    with hold(tmp_path):
        ask_elsewhere()
    assert "in use by process" in refused[0]
    ask_elsewhere()
    assert len(refused) == 1


def test_the_holder_may_hold_again(tmp_path):
    with hold(tmp_path), hold(tmp_path):
        pass
    with hold(tmp_path):
        pass


def test_another_process_is_refused_and_a_dead_one_holds_nothing(tmp_path):
    script = (
        "import fcntl, sys, time\n"
        "file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "file.write('process 42 on elsewhere'); file.flush(); print('held', flush=True)\n"
        "time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(WorkdirBusy, match="process 42 on elsewhere"), hold(tmp_path):
            pass
        holder.kill()
    with hold(tmp_path):
        pass
