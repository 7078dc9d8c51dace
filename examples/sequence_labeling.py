"""Two tiny transformers label the words of sentences and teach one another; their attention heads are gates.

The first of up to ten words says how the others are to be read; a tenth of the labels are wrong. One transformer is
written here, the other is the BERT of Hugging Face's `transformers` as it comes, through `ModuleApply`; without that
package both are ours. Usage: sequence_labeling.py [SEEDS [STEPS]]
"""

from importlib.util import find_spec
from typing import Any, cast

import torch
from three_ways import adam_of, arguments, compare, learner_of, trained
from torch import Tensor, nn
from torch.nn import functional as F

from smallgroup.group import DenseClassification, SmallGroup

WORDS, LENGTH, WIDTH, HEADS, PADDING = 13, 10, 16, 4, 12


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.look, self.join, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.gates = nn.Parameter(torch.ones(HEADS))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.words(input_ids) + self.places
        q, k, v = self.look(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(2, 3)).masked_fill(~attention_mask[:, None, None], -1e4)
        seen = scores.softmax(dim=3) @ v * torch.sigmoid(self.gates).view(-1, 1, 1)
        classes: Tensor = self.head(x + F.gelu(self.join(seen.transpose(1, 2).flatten(2))))
        return classes


def bert() -> nn.Module:
    """Return BERT for token classification, with a gate per head where the heads are joined."""
    from transformers import BertConfig, BertForTokenClassification  # noqa: PLC0415

    size = {"vocab_size": WORDS, "hidden_size": WIDTH, "intermediate_size": 32, "num_attention_heads": HEADS}
    model: Any = BertForTokenClassification(BertConfig(**size, num_hidden_layers=1, num_labels=3))
    join = model.bert.encoder.layer[0].attention.output.dense
    join.gates = nn.Parameter(torch.ones(HEADS))
    join.register_forward_pre_hook(lambda me, x: x[0] * torch.sigmoid(me.gates).repeat_interleave(WIDTH // HEADS))
    return cast(nn.Module, model)


def sentences(count: int, generator: torch.Generator, wrong: float = 0.0) -> tuple[dict[str, Tensor], Tensor]:
    words = torch.randint(PADDING, (count, LENGTH), generator=generator)
    classes = (words + (words[:, :1] < 6)) % 3
    noise = torch.rand(count, LENGTH, generator=generator) < wrong
    classes = torch.where(noise, torch.randint(3, (count, LENGTH), generator=generator), classes)
    mask = torch.arange(LENGTH) < torch.randint(4, LENGTH + 1, (count, 1), generator=generator)
    return {"input_ids": words.masked_fill(~mask, PADDING), "attention_mask": mask}, classes.masked_fill(~mask, -100)


def measure(seed: int, lam: float, steps: int) -> list[tuple[float, float]]:
    generator = torch.Generator().manual_seed(seed)
    train, validation, test = (sentences(n, generator, wrong) for n, wrong in ((64, 0.1), (64, 0.1), (300, 0.0)))
    kinds = (Tagger, Tagger if find_spec("transformers") is None else bert)
    logits = {"output": lambda found: getattr(found, "logits", found)}
    learners = [learner_of(kind, ["gates"], 2 * seed + k, **logits) for k, kind in enumerate(kinds)]
    task = DenseClassification(class_dim=-1, counted=lambda inputs: inputs["attention_mask"])
    group = SmallGroup(learners, task=task, lam=lam, optimizers=[adam_of(learner) for learner in learners])
    for _ in range(steps):
        group.step(train, sentences(32, generator)[0], validation)
    found = []
    with torch.no_grad():
        for model in map(trained, learners):
            validated, tested = (model(**inputs) for inputs, _ in (validation, test))
            wrong = 100 * float((tested.argmax(dim=2) != test[1])[test[1] >= 0].float().mean())
            found.append((float(F.cross_entropy(validated.transpose(1, 2), validation[1])), wrong))
    return found


if __name__ == "__main__":
    print("second learner:", "ours" if find_spec("transformers") is None else "BERT of transformers")
    compare(measure, "Wrong words in percent", *(arguments() or [5, 300]))
