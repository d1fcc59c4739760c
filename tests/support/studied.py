"""The one study of a store, as a report has it."""

from __future__ import annotations

from typing import Any

from bench.record.store import Store
from bench.report.studies import Folder, groups, study_of
from bench.report.study import Study


def studied(store: Store, **how: Any) -> Study:
    """Args:
    how: as :func:`study_of` takes it.
    """
    records = list(store.records())
    (group,) = groups(records)
    return study_of(group, Folder(store, records), **how)
