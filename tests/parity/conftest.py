"""The record of the session, gathered from all workers; PARITY_TABLE=FILE writes it at the end."""

import os

import pytest

from attn_jax.data.files import write_atomically
from tests.parity.table import Record, note, page

RECORD = pytest.StashKey[Record]()


def pytest_configure(config):
    config.stash[RECORD] = {}


@pytest.fixture
def record(request):
    """`record(architecture, what, difference)` puts a line into the table."""

    def keep(architecture, what, difference):
        note(request.config.stash[RECORD], architecture, what, difference)

    return keep


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for key, difference in getattr(node, "workeroutput", {}).get("parity", []):
        note(node.config.stash[RECORD], *key, difference)


def pytest_sessionfinish(session, exitstatus):
    record = session.config.stash[RECORD]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["parity"] = list(record.items())
    elif (path := os.environ.get("PARITY_TABLE")) and exitstatus == 0:
        write_atomically(path, page(record))
