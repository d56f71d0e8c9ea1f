import importlib.util
from pathlib import Path

import pytest

collect_ignore = ["tiny.py", "devices.py", "hosts.py", "killed.py", "meshes.py"]  # scripts


@pytest.fixture(scope="session")
def tiny():
    """The module tests/train/tiny.py."""
    path = Path(__file__).with_name("tiny.py")
    specification = importlib.util.spec_from_file_location("tiny_language_model", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
