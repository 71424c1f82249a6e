"""What does a name in a log mean? ``Val/Loss_epoch``, ``eval_loss`` and ``validation loss`` are one thing.

A key is cut into lower-case words. Words such as ``val`` say the split, words such as ``avg`` say nothing, and the
words that are left are looked up; of a longer text the longest known ending counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRAIN_WORDS = _words("train training tr trn")
VAL_WORDS = _words("val valid validation validate eval evaluation dev test testing holdout heldout")
QUIET_WORDS = _words(
    "avg average averaged this mean running current curr cur smoothed smooth moving final epoch step batch iter "
    "iteration "
    "metrics metric the of is was at a an so far on in global reduced"
)
"""Words that change nothing about what is measured."""

REFUSED_WORDS = _words(
    "best min max lowest highest target prev previous standard std stderr var variance threshold ema logit"
)
"""Words that make another thing of it: the best loss so far is no loss curve."""

COUNTERS = {
    "step": "global step|step|steps|iter|iters|iteration|iterations|it|num updates|updates|train step|num steps|niter|"
    "trainer global step|batch|batch idx|micro step|update|completed step|optimizer step|opt step|schritt",
    "epoch": "epoch|epochs|ep|trainer epoch|cur epoch|current epoch|train epoch|training epoch|epoche",
}
"""What is counted -> its names, best first."""

GAINS = {"elbo", "log likelihood", "loglik"}
"""What is printed in place of a loss and is to rise."""

MEASURES = {
    "loss": "loss|losses|loss total|total loss|loss value|lm loss|objective|train loss|nll loss|ce loss|ce|"
    "cross entropy|cross entropy loss|crossentropy|nll|bpb|bpc|elbo|log likelihood|loglik|cost|mse loss|l1 loss|"
    "lm loss value|xent|logloss|log loss|mlogloss|multi logloss|binary logloss|avg loss",
    "grad_norm": "grad norm|gradient norm|gnorm|gradnorm|global grad norm|total norm|grad l2|norm|grad norm total",
    "loss_scale": "loss scale|lossscale|amp scale|grad scale|scaler scale|scale|scaling factor|loss scale value",
    "skipped": "skipped|skipped steps|number of skipped iterations|num skipped|skipped iterations|skips|skip",
    "lr": "lr|learning rate|learningrate|lr pg0|lr group 0|learning rate 0|lr 0|lr abs",
    "throughput": "tps|tok s|tok sec|toks s|tokens s|tokens sec|tokens per sec|tokens per second|tgs|wps|samples s|"
    "samples sec|samples per sec|samples per second|examples s|examples sec|examples per sec|img s|imgs s|images s|"
    "img sec|images sec|images per sec|it s|its s|throughput|samplespersec|curr samples per sec|currsamplespersec|sps|"
    "steps per sec|steps per second|steps sec|ips|train samples per second|tokens per second per gpu|ups|"
    "global step sec",
    "step_time_s": "train time|step time|iter time|iteration time|batch time|time|time ms|dt|time per step|"
    "time per iter|time s|time per iteration|time per batch|step time s|step time ms|iter time ms|iter time s|dt ms|"
    "ms step|s it|sec it|"
    "s step|elapsed time per iteration ms|elapsed time per iteration|train step timing in s|secs per step|"
    "seconds per step|sec per step|step ms|batch t|t step|batch cost|avg batch cost",
    "data_time_s": "data time|data loading time|dataloading time|data load|data load time|data loading|data wait|data|"
    "dataloader time|dataloader|load time|loading time|data t|data s|data ms|data time s|data time ms|data wait s|"
    "batch generator|dataloadingtime|data loader time|wait data|fetch time|loader time|data cost|reader cost|"
    "avg reader cost",
    "compute_time_s": "compute time|gpu time|model time|forward backward time|fwd bwd time|fwd bwd|fb time|compute|"
    "forward time|fwd time|train step time|compute s|compute ms",
    "elapsed_s": "elapsed|elapsed time|total time|wall time|walltime|wall clock|wall|train wall|time elapsed|runtime|"
    "time total|total time s|time since start|seconds|timestamp",
    "memory": "memory|mem|gpu mem|gpu memory|max mem|max memory|peak mem|peak memory|cuda mem|max cuda memory|gb mem|"
    "memallocated|mem allocated|maxmemallocated|memory gib|memory gb|mem gb|alloc|vram|memory max reserved gib",
}
"""Normal name -> the names that programs print for it, best first."""

SCORES = (
    "accuracy|acc|acc1|acc 1|top1|top 1|top1 acc|top 1 accuracy|prec 1|categorical accuracy|"
    "sparse categorical accuracy|binary accuracy|balanced accuracy|f1|f1 score|macro f1|micro f1|map50 95|map50 95 b|"
    "map|bbox map|segm map|map50|map 50|map50 b|map 0 5|map 0 5 0 95|ap|ap50|bleu|sacrebleu|rouge1|rouge l|rougel|auc|"
    "auroc|roc auc|iou|miou|m iou|mean iou|dice|dice score|r2|r2 score|psnr|ssim|exact match|em|mcc|"
    "matthews correlation|pearson|spearman|ndcg|mrr|hit|recall|precision|acc top1|accuracy top1|acc top 1|"
    "accuracy top 1|core|score|metric"
)
"""Metrics of which more is better, the most telling first."""

ERRORS = "perplexity|ppl|wer|cer|error|err|error rate|err rate|top1 err|top 1 err|err 1|mae|rmse|mse|fid|mape"
"""Metrics of which less is better."""

PARTS = "box|obj|cls|dfl"
"""Parts of the loss of detectors that their tables name without the word."""

RIVAL_WORDS = _words(
    "d g gen disc discriminator generator adv adversarial gan real fake critic lossd lossg dloss gloss"
)
"""Losses of players: one rises when the other wins."""

RL_WORDS = _words("reward rewards return returns episode policy advantage advantages rollout rew actor")

CONTRASTIVE_WORDS = _words("contrastive infonce ntxent simclr siglip moco byol triplet nce contrast")

CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")

WORD = re.compile(r"[a-z]+[0-9]*|[0-9]+")

GLUED = re.compile(r"^(train|training|val|valid|test|eval|avg)(loss|acc|accuracy|losses)$")


@dataclass(frozen=True)
class Meaning:
    """What a key stands for."""

    name: str
    """A normal name; ``metric`` for a score, ``part`` for one part of the loss, and empty for what is not known."""
    split: str = ""
    """``train``, ``val``, or empty where the key does not say."""
    rank: int = 0
    """0 for the best of the names of a thing."""
    label: str = ""
    """The metric or the part of the loss."""
    more_is_better: bool = False


UNKNOWN = Meaning("")

UNNAMED = "Value of one scalar"
"""What a table calls the column of an export that does not say what it measures."""


def _table() -> dict[str, Meaning]:
    table: dict[str, Meaning] = {UNNAMED.lower(): Meaning("unnamed")}
    for group in (COUNTERS, MEASURES):
        for name, aliases in group.items():
            for rank, alias in enumerate(aliases.split("|")):
                table.setdefault(alias, Meaning(name, rank=rank, more_is_better=alias in GAINS))
    for alias in PARTS.split("|"):
        table[alias] = Meaning("part", label=alias)
    for better, names in ((True, SCORES), (False, ERRORS)):
        for rank, alias in enumerate(names.split("|")):
            table.setdefault(alias, Meaning("metric", rank=rank, label=alias, more_is_better=better))
    return table


KNOWN = _table()
LONGEST = max(len(alias.split()) for alias in KNOWN)


@lru_cache(maxsize=4096)
def meaning_of(key: str) -> Meaning:
    """Return what a key of a log stands for."""
    words = words_of(key)
    found = _looked_up(words)
    smooth = found.name == "throughput" and {"running", "avg", "average"} & set(words)
    return UNKNOWN if smooth else found


def _looked_up(words: list[str]) -> Meaning:
    if not words or len(words) > 12 or REFUSED_WORDS & set(words):
        whole = KNOWN.get(" ".join(words), UNKNOWN)
        return whole if whole.name == "memory" else UNKNOWN
    split = _split(words)
    rest = [word for word in words if word not in TRAIN_WORDS and word not in VAL_WORDS] if split else words
    for candidate in (words, rest, [word for word in rest if word not in QUIET_WORDS]):
        found = KNOWN.get(" ".join(candidate))
        if found:
            return Meaning(
                found.name, split, found.rank + 10 * (candidate is not words), found.label, found.more_is_better
            )
    part = _part_of_the_loss(rest, split)
    return part if part.name else _ending(rest, split)


def words_of(key: str) -> list[str]:
    """Return a key as lower-case words."""
    key = key.rsplit(" - ", 1)[-1].replace("mAP", "map").replace("Acc@", "acc ").replace("Prec@", "prec ")
    words = WORD.findall(CAMEL.sub(" ", key).lower())
    return [part for word in words for part in (GLUED.match(word) or re.match(r"^(.*)$", word)).groups() if part]  # type: ignore[union-attr]


def _split(words: list[str]) -> str:
    train, val = bool(TRAIN_WORDS & set(words)), bool(VAL_WORDS & set(words))
    if train == val:
        return "val" if words[:1] == ["metrics"] else ""
    return "train" if train else "val"


def _part_of_the_loss(words: list[str], split: str) -> Meaning:
    """Recognise ``loss_cls``, ``box_loss``, ``loss/object/task0``."""
    telling = [word for word in words if word not in QUIET_WORDS]
    if not {"loss", "losses", "lossd", "lossg", "dloss", "gloss"} & set(telling) or {"scale", "scaler", "weight"} & set(
        telling
    ):
        return UNKNOWN
    return Meaning("part", split, label=" ".join(word for word in telling if word not in {"loss", "losses"}))


def _ending(words: list[str], split: str) -> Meaning:
    """Return the meaning of the longest known ending: a sentence or a logger may stand before it."""
    for start in range(max(1, len(words) - LONGEST), len(words)):
        found = KNOWN.get(" ".join(words[start:]))
        if (
            found
            and (found.rank < 3 or start == 1 or len(words) - start >= 3)
            and len(words) - start >= (1 if found.name in {"metric", "loss_scale"} else 2)
        ):
            return Meaning(found.name, split, found.rank + 20, found.label, found.more_is_better)
    return UNKNOWN
