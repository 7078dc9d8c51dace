"""Deep mutual learning (Zhang et al., CVPR 2018) as a job: fixed networks that learn labels and from one another.

Learner k has the loss

    CE(y, p_k) + weight * 1 / (K - 1) * sum over j != k of KL(p_j || p_k)

on the same batch as all others. The p_j are constants, and all networks move at once: who comes first does not matter.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from smallgroup.data.training_data import TrainingData
from smallgroup.group import Exchange
from smallgroup.group.exchange import Tables
from smallgroup.phases.training.config import TrainingConfig
from smallgroup.phases.training.course import LabeledCourse, SeveralNetworks
from smallgroup.phases.training.peers import Peers
from smallgroup.phases.training.trainee import Response, Trainee


def divergences(logits: Sequence[Tensor], mine: Sequence[int] | None = None) -> list[Tensor]:
    """Return for each learner the mean over its peers of KL(peer || own), averaged over the batch; peers are constants.

    With `mine`, only for these learners.
    """
    own = [functional.log_softmax(each.to(torch.promote_types(each.dtype, torch.float32)), dim=1) for each in logits]
    constant = [log_p.detach() for log_p in own]
    found = []
    for k in range(len(own)) if mine is None else mine:
        log_q = own[k]
        of_peers = [
            functional.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
            for j, log_p in enumerate(constant)
            if j != k
        ]
        found.append(torch.stack(of_peers).mean())
    return found


def of_peer(tables: Tables | None) -> Tensor:
    """Return the one table that a learner of another process shows."""
    assert tables is not None  # every learner answers every batch
    return tables[0]


class MutualJob(SeveralNetworks, LabeledCourse):
    """Networks around given cells, trained together on all training images.

    Each has initial weights and drop path of its own, which depend on the seed and its place alone. With weight 0 each
    is therefore, bit for bit, what it is among any other peers; and learner 0 what it is in a `TrainingJob`. With an
    `exchange` other processes compute some of them.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: TrainingData,
        peers: Peers,
        *,
        seed: int,
        device: torch.device | str = "cpu",
        exchange: Exchange | None = None,
    ) -> None:
        self.peers = peers
        trainees = [
            Trainee(config, data, genotype, seed=seed, learner=k, device=device)
            for k, genotype in enumerate(peers.genotypes)
        ]
        super().__init__(config, data, trainees, exchange)

    def follow(self, answers: Sequence[Response], share: float) -> None:
        """Learn from the labels and the peers; auxiliary heads learn from the labels alone."""
        weight, mine = self.peers.weight, self.exchange.mine
        own = dict(zip(mine, (answer.logits for answer in answers), strict=True))
        shown = self.exchange.tables({k: [logits.detach()] for k, logits in own.items()})
        logits = [own[k] if k in own else of_peer(tables) for k, tables in enumerate(shown)]
        with torch.set_grad_enabled(weight > 0):  # without weight it is measured all the same
            found = divergences(logits, mine)
        for trainee, answer, divergence in zip(self.mine, answers, found, strict=True):
            trainee.follow(answer, share=share, step=self.step, divergence=divergence, weight=weight)
