"""What is put on an encoder of text: labels, loss and logits in one form, whatever the head."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.parity.twin import IGNORED, cross_entropy, torch, transformers

Output = transformers.modeling_outputs.SequenceClassifierOutput


def draw_labels(name: str, config: Any, real: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels of a class: `b` of sequences; `b 2`, where answers begin and end; else `b t` of tokens.

    A label more in each row where it is pretrained: whether the next sentence follows.
    """
    if name.endswith(("SequenceClassification", "NextSentencePrediction")):
        return rng.integers(0, config.num_labels, len(real))
    if name.endswith("QuestionAnswering"):
        return rng.integers(0, real.sum(-1, keepdims=True), (len(real), 2))
    highest = config.num_labels if name.endswith("TokenClassification") else config.vocab_size
    drawn = rng.integers(0, highest, real.shape)
    labels = np.where(real & (rng.random(real.shape) < 0.7), drawn, IGNORED)
    if name.endswith("PreTraining"):
        labels = np.concatenate([labels, rng.integers(0, 2, (len(real), 1))], axis=1)
    return labels


def loss_and_logits(name: str, said: Any, labels: np.ndarray) -> tuple[Any, Any]:
    """Of what our model says, in one array."""
    if name.endswith("PreTraining"):
        tokens, sentences = said
        loss = cross_entropy(tokens, labels[:, :-1]) + cross_entropy(sentences, labels[:, -1])
        return loss, jnp.concatenate([tokens.reshape(len(tokens), -1), sentences], axis=1)
    if name.endswith("QuestionAnswering"):
        return cross_entropy(said.swapaxes(1, 2), labels), said
    return cross_entropy(said, labels), said


def twin(name: str) -> Any:
    """A class of `transformers`, with labels and logits as above."""
    kind = getattr(transformers, name)

    def pretrained(self: Any, labels: Any, **inputs: Any) -> Any:
        given = dict(labels=labels[:, :-1].contiguous(), next_sentence_label=labels[:, -1])
        told = kind.forward(self, **given, **inputs)
        tokens = told.prediction_logits.flatten(1)
        logits = torch.cat([tokens, told.seq_relationship_logits], dim=1)
        return Output(told.loss, logits, told.hidden_states, told.attentions)

    def answered(self: Any, labels: Any, **inputs: Any) -> Any:
        given = dict(start_positions=labels[:, 0], end_positions=labels[:, 1])
        told = kind.forward(self, **given, **inputs)
        told["logits"] = torch.stack([told.start_logits, told.end_logits], dim=-1)
        return told

    for ending, forward in (("PreTraining", pretrained), ("QuestionAnswering", answered)):
        if name.endswith(ending):
            return type(name, (kind,), {"forward": forward, "__module__": kind.__module__})
    return kind
