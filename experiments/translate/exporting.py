"""What a run learned, in the format of `transformers`."""

from pathlib import Path

from attn_jax import interop
from attn_jax.data.files import write_atomically
from experiments.command_line import Command
from experiments.overrides import UsageError
from experiments.translate.published import marian_files
from experiments.translate.workdir import Workdir


def export(command: Command) -> None:
    """Writes the best model to the directory `--output`, as a MarianMT, and its tokenizer beside it.

    The files are config.json, model.safetensors, and source.spm, target.spm, vocab.json and
    tokenizer_config.json, from which ``transformers`` makes a MarianTokenizer.

    Raises:
      UsageError: no directory is given.
      ValueError: the model is one that a MarianMT cannot be; what differs is named, and nothing written.
    """
    if (output := command.options["output"]) is None:
        raise UsageError("--mode=export takes a directory to write: --output=DIR")
    workdir = Workdir(command.workdir)
    system, state = workdir.trained(command.config)
    interop.save(system.model(state.averaged), output)
    model = workdir.tokenizer.read_bytes() if workdir.tokenizer.exists() else b""
    for name, content in marian_files(system.tokenizer, model).items():
        write_atomically(Path(output) / name, content)
    print(f"{system.name} of {system.parameters:,} parameters written to {output} as a MarianMT")
