"""Text generation: scores against the libraries that define them, C-MLM's masks and losses, and the writer's own arithmetic."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas
import pytest
import tiny
import torch
from transformers import BertModel, DistilBertConfig, DistilBertForMaskedLM

from bench.conformance.checks import check_method
from bench.conformance.tiny_bench import MASK, Bench, tiny_pairs, tiny_teacher_config
from bench.data import questions
from bench.data.own_tasks import expand
from bench.data.sources import source_for
from bench.errors import InputError
from bench.plan.artefacts import names_in_file
from bench.record.raw_predictions import fault
from bench.record.store import Store
from bench.stats.form import TEXT_COUNTS
from bench.stats.metrics import METRICS
from methods.api import Batch
from methods.cmlm import Cmlm, ConditionalMaskedModel, HeadTransform, SoftTargets
from methods.core import losses
from methods.core.taps import LOGITS
from methods.core.writing import BEGIN, FIRST, OTHER, PAD, sides, words_of
from methods.seq2seq import Seq2Seq

SQUAD = Path(__file__).resolve().parents[3] / "shared" / "extra" / "squad" / "plain_text"
TINY = Seq2Seq(**Seq2Seq.tiny_settings)


def test_bleu_and_rouge_are_those_of_the_libraries():
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    from rouge_score.rouge_scorer import RougeScorer

    from bench.stats.metrics.text import counts_of

    rng = np.random.default_rng(0)
    words = ["the", "cat", "sat", "on", "a", "mat", ",", "and", "it", "was", "red", "."]
    for length in (1, 3, 9, 9, 14):  # short texts lack n-grams, which are smoothed or score nothing
        both = [
            [" ".join(rng.choice(words, size=rng.integers(1, length + 1))) for _ in range(5)]
            for _ in range(2)
        ]
        counts = counts_of(*both)
        expected = sacrebleu.BLEU(lowercase=True).corpus_score(both[0], [both[1]]).score
        assert 100 * METRICS["bleu"].score(counts, counts) == pytest.approx(expected, abs=1e-4)
        each = [
            RougeScorer(["rougeL"]).score(b, a)["rougeL"].fmeasure
            for a, b in zip(*both, strict=True)
        ]
        assert METRICS["rouge_l"].score(counts, counts) == pytest.approx(np.mean(each), abs=1e-6)


def test_smoothing_and_the_kl_to_the_best_words_by_hand():
    # probabilities 3/4 and 1/4
    logits, words = torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([0])
    expected = -(0.9 * math.log(0.75) + 0.1 * (math.log(0.75) + math.log(0.25)) / 2)
    assert float(losses.smoothed_tokenmean(logits, words, 0.1)) == pytest.approx(expected)
    # the teacher's two best of three words, 4 : 1 at T = 1 and 2 : 1 at T = 2; the student is not softened
    student = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    top, best = torch.tensor([[math.log(4.0), 0.0]]), torch.tensor([[2, 0]])
    for temperature, share in ((1.0, 4 / 5), (2.0, 2 / 3)):
        expected = share * math.log(share / 0.25) + (1 - share) * math.log((1 - share) / 0.5)
        assert float(losses.top_kl_tokenmean(student, top, best, temperature)) == pytest.approx(
            expected
        )


@pytest.fixture
def batch() -> Batch:
    return tiny_pairs().batch(range(6))


@pytest.fixture(scope="module")
def writer() -> torch.nn.Module:
    """A model that was trained to write the tiny pairs."""
    return Bench(TINY, 2).trained().student.model.eval()


def cmlm(direction: str) -> ConditionalMaskedModel:
    torch.manual_seed(0)
    model = ConditionalMaskedModel(
        BertModel(tiny_teacher_config()), {}, torch.arange(44), MASK, direction
    ).eval()
    model.output.weight.data.normal_()
    return model


def altered(batch: Batch, place: int) -> Batch:
    token_ids = batch.token_ids.clone()
    token_ids[place] = 40 if token_ids[place] != 40 else 41
    return Batch(batch.example_ids, token_ids, batch.segment_ids, batch.layout, None)


def test_a_teacher_of_both_sides_masks_targets_alone_and_never_sees_what_it_is_asked(batch):
    model, target_T = cmlm("both"), batch.segment_ids == 1
    seen: list[torch.Tensor] = []
    model.encoder.register_forward_pre_hook(
        lambda _, args, given: seen.append(given["input_ids"]), with_kwargs=True
    )
    for seed in range(20):
        torch.manual_seed(seed)
        assert torch.isfinite(model.loss(batch))
        rows = [
            row[: len(ids)]
            for row, ids in zip(seen[-1], batch.token_ids.split(batch.layout.lengths), strict=True)
        ]
        hidden_T = torch.cat(rows) != batch.token_ids
        assert not (hidden_T & ~target_T).any()
        assert all(row.any() for row in hidden_T.split(batch.layout.lengths)), (
            "each target says something"
        )
        assert (torch.cat(rows)[hidden_T] == MASK).all()
    place = int(target_T.nonzero()[2])
    hidden_T = torch.arange(len(target_T)) == place
    asked, places = model.answers(batch, hidden_T)
    assert places.tolist() == [place]
    assert torch.equal(asked, model.answers(altered(batch, place), hidden_T)[0])
    for other in (place - 1, place + 1):  # it reads both sides
        assert not torch.equal(asked, model.answers(altered(batch, other), hidden_T)[0])


def test_a_teacher_from_left_to_right_sees_nothing_of_what_comes(batch):
    model, target_T = cmlm("left-to-right"), batch.segment_ids == 1
    before, places = model.answers(batch, target_T)
    assert torch.equal(places, target_T.nonzero()[:, 0])
    for place in places[:6].tolist():
        after, _ = model.answers(altered(batch, place), target_T)
        same = [torch.allclose(a, b, atol=1e-6) for a, b in zip(before, after, strict=True)]
        in_pair = [int(p) < batch.layout.lengths[0] for p in places]
        assert all(same[i] for i, p in enumerate(places) if p <= place), (
            "a word and those before it"
        )
        assert not any(same[i] for i, p in enumerate(places) if p > place and in_pair[i])
        assert all(same[i] for i, inside in enumerate(in_pair) if not inside), "other pairs"


@pytest.mark.parametrize("direction", ["both", "left-to-right"])
def test_soft_targets_are_the_best_of_each_word_in_the_order_of_the_pairs(direction):
    bench = Bench(Cmlm(**Cmlm.tiny_settings, k=3, teacher_epochs=1.0, direction=direction), 2)
    made, data = bench.setup.artefacts[SoftTargets.name], bench.data
    lengths = [int(segment.sum()) for segment in data.segments]
    assert made["starts"].tolist() == [0, *np.cumsum(lengths)]
    assert made["top"].shape == made["words"].shape == (sum(lengths), 3)
    assert (made["top"].diff(dim=1) <= 0).all()
    assert made["words"].min() >= FIRST


def test_words_and_pieces_are_each_others_inverse(batch):
    pieces = batch.token_ids.unique()
    words = words_of(pieces, batch.token_ids)
    assert torch.equal(pieces[words - FIRST], batch.token_ids)
    assert words_of(pieces, torch.tensor([10_000])).tolist() == [OTHER]
    _, target_BM = sides(batch, words)
    assert (target_BM != PAD).sum() == batch.segment_ids.sum() == len(TINY.words(batch, pieces))


def test_a_writer_answers_each_pair_alone_and_words_by_those_before_them(batch, writer):
    logits = writer.packed_forward(batch, LOGITS).logits
    counts = [int(row.sum()) for row in batch.segment_ids.split(batch.layout.lengths)]
    for number, own in enumerate(logits.split(counts)):
        alone = writer.packed_forward(tiny_pairs().batch([number]), LOGITS).logits
        torch.testing.assert_close(own, alone, atol=1e-5, rtol=0)
    last = batch.layout.lengths[0] - 2  # the last word before the end
    changed = writer.packed_forward(altered(batch, last), LOGITS).logits
    torch.testing.assert_close(changed[: counts[0] - 1], logits[: counts[0] - 1])
    assert not torch.allclose(changed[counts[0] - 1], logits[counts[0] - 1])


def test_a_writer_reads_no_target_and_writes_pieces_alone(batch, writer):
    written = writer.written(batch)
    place = batch.layout.lengths[0] - 2
    assert writer.written(altered(batch, place)) == written
    assert len(written) == len(batch.layout.lengths)
    assert all(
        len(ids) <= TINY.longest and set(ids) <= set(writer.pieces.tolist()) - {3}
        for ids in written
    )
    assert {PAD, OTHER, BEGIN} == set(writer.generation_config.suppress_tokens)


@pytest.mark.slow
@pytest.mark.parametrize("method", [Seq2Seq, Cmlm])
def test_a_method_that_writes_keeps_the_contract(method):
    """Among its checks: the same bits for equal seeds, and after every interruption."""
    wrong = {check.name: check.found for check in check_method(method) if not check.passed}
    assert wrong == {}


def test_an_answer_is_marked_in_its_sentence():
    context = "It rained. The cat of Mr. Smith sat on 2.5 mats. It purred."
    marked = questions.marked_sentence(context, "2.5 mats", context.index("2.5"))
    assert marked.endswith("sat on [ 2.5 mats ].")
    assert "rained" not in marked
    assert "purred" not in marked


@pytest.mark.skipif(not SQUAD.is_dir(), reason="SQuAD's development file is not here")
def test_no_article_is_in_both_splits():
    rows = (
        questions.read_squad(sorted(SQUAD.glob("*.parquet")), "train"),
        questions.read_squad(sorted(SQUAD.glob("*.parquet")), "validation"),
    )
    assert len(rows[0]) > 8000
    assert len(rows[1]) > 500
    assert not set(rows[0].first) & set(rows[1].first)
    assert all("[ " in sentence and " ]" in sentence for sentence in rows[1].first)


TOML = """
name = "reversed"
train = "train.csv"
validation = "dev.csv"
text = ["a"]
target = "b"
metrics = ["bleu", "rouge_l"]
"""


def own_pairs(folder: Path) -> Path:
    """A task of one's own: sentences to write backwards."""
    for name, rows in (("train", 40), ("dev", 12)):
        first = [
            f"the {a} cat {b} in the house"
            for a in ("red", "blue", "old", "big")
            for b in tiny.WORDS[: rows // 4]
        ]
        table = pandas.DataFrame(
            {"a": first, "b": [" ".join(reversed(text.split())) for text in first]}
        )
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "reversed.toml").write_text(TOML)
    return folder / "reversed.toml"


def test_pairs_of_ones_own_are_read(tmp_path):
    pytest.importorskip("sacrebleu")
    ((task, _),) = expand(str(own_pairs(tmp_path)))
    source = source_for(task, "sample", True)
    train, scored = source.load(task, "train"), source.load(task, task.evaluation[0])
    assert train.labels is None
    assert train.second[0] == "house the in the cat red the"
    assert scored.labels.shape == (12, len(TEXT_COUNTS))
    assert METRICS["bleu"].score(scored.labels, scored.labels) < 0.5, "copying is no answer"


def test_pairs_of_the_hub_are_its_converted_files(monkeypatch, tmp_path):
    pytest.importorskip("sacrebleu")
    for split in ("train", "validation", "test"):
        (tmp_path / "de-en" / split).mkdir(parents=True)
        pairs = [{"translation": {"de": f"{split} ein hund", "en": f"{split} a dog"}}]
        pandas.DataFrame(pairs).to_parquet(tmp_path / "de-en" / split / "0000.parquet")
    monkeypatch.setattr("bench.data.hub.downloaded", lambda *_: tmp_path)
    ((task, _),) = expand("iwslt14-de-en")
    source = source_for(task, "hub", True)
    assert source.load(task, "train").second == ["train a dog"]
    assert [source.load(task, each).first for each in task.evaluation] == [
        ["validation ein hund"],
        ["test ein hund"],
    ]


def test_a_task_of_texts_has_one_source_and_no_labels(tmp_path):
    file = own_pairs(tmp_path)
    file.write_text(file.read_text() + 'labels = ["x", "y"]\n')
    with pytest.raises(InputError, match="without labels"):
        expand(str(file))


@pytest.mark.slow
def test_from_pairs_to_a_report(bench, tmp_path, teacher_folder):
    pytest.importorskip("sacrebleu")
    row = ":".join(f"{name}={value}" for name, value in Cmlm.tiny_settings.items())
    words = [
        "run",
        "--methods",
        f"seq2seq:{row},cmlm:{row}:teacher_epochs=1",
        "--tasks",
        own_pairs(tmp_path),
    ]
    words += ["--teacher", teacher_folder, "--epochs", 1, "--yes"]
    words += ["--results", tmp_path / "r", "--reports", tmp_path / "p"]
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    records = list(Store(tmp_path / "r").records())
    assert len(records) == 2
    for record in records:
        assert record.task.form == "text"
        assert fault(record, Store(tmp_path / "r").predictions(record)) == ""
        assert record.usage["writing"]["bleu"].startswith("nrefs:1|case:lc")
        assert record.usage["writing"]["batch_1"]["ms_a_text"] > 0
    (page,) = (tmp_path / "p").glob("*/*/README.md")
    assert "| copying the source" in page.read_text()
    assert bench(*words).returncode == 0
    again = list(Store(tmp_path / "r").records())
    assert [record.finished for record in again] == [record.finished for record in records], (
        "nothing is trained twice"
    )


def test_the_head_of_a_distilbert_is_found_by_its_own_names(tmp_path):
    shape = {"vocab_size": 60, "dim": 12, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    DistilBertForMaskedLM(DistilBertConfig(**shape)).save_pretrained(tmp_path)
    assert set(names_in_file(HeadTransform(), tmp_path / "model.safetensors")) == set(
        HeadTransform().blank(tiny.config(), 2)
    )
