"""Upkeep of a folder of records: what `store repair` can do nothing about."""

from __future__ import annotations


def test_predictions_that_are_gone_are_nothing_broken_that_repair_leaves(bench, answered_store):
    next(answered_store.root.rglob("attempt-*.npz")).unlink()
    words = ["--results", answered_store.root]
    assert bench("store", "verify", *words).returncode == 1
    answer = bench("store", "repair", *words)
    assert "no answers" in answer.stdout
    assert answer.returncode == 0
