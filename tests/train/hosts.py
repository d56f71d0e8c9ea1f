"""Run by hosts_test.py, twice at the same time: two processes of four devices each, one run.

python hosts.py WORKDIR COORDINATOR PROCESS PAUSE
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import json
import sys
import time
from pathlib import Path

import tiny

from attn_jax import train
from attn_jax.train import distributed

workdir, coordinator, process, pause = sys.argv[1:]
distributed.join(coordinator, processes=2, process=int(process))
layout = train.Layout(train.device_mesh(data=2, fsdp=4))
number, hosts = layout.share
seen = []


def draw(count):
    time.sleep(float(pause))
    print("batch", count, flush=True)
    batch = whole._draw(count)
    rows = slice(number * 4, (number + 1) * 4)
    share = {name: array[rows] for name, array in batch.items()}
    seen.append(share["index"].tolist())
    return share


assert (hosts, int(process)) == (2, number)
whole = tiny.batches(rows=8)
held_out = [{name: array[number * 4 :][:4] for name, array in tiny.batch_of(range(8)).items()}]
evaluate = train.make_evaluate(tiny.loss, layout)
state, report = train.fit(
    tiny.state(ema=True),
    train.make_step(tiny.spoilt_loss, tiny.optimizer(), layout),
    train.Stream(draw),
    plan=train.Plan(12, log_every=2, evaluate_every=4),
    run=train.Run(workdir),
    evaluate=lambda state: evaluate(state.params, held_out),
)
kernel = state.opt_state[0][1].mu["out"]["kernel"]
moments = {"kernel": kernel.addressable_data(0).shape}
said = {"status": report.status, "from": report.resumed_from, "seen": seen, "moments": moments}
Path(workdir, f"process-{process}.json").write_text(json.dumps(said))
