"""What is written into the short name of a data source is read out of it again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.record.task_facts import (
    Augmented,
    augmented_slug,
    data_facts,
    half_dev_slug,
    held_back_slug,
)

SLUGS = {"sample-v2": "sample", "glue-hub": "hub", "own-reviews": "own", "folder-my-glue": "folder"}
AUGMENTED = st.builds(
    Augmented,
    st.sampled_from(["masked", "rules"]),
    st.integers(1, 99),
    st.sampled_from(["", "glove.6B.txt"]),
)


@given(st.sampled_from(list(SLUGS)), st.none() | st.integers(0, 20), st.booleans(), AUGMENTED)
def test_the_parts_of_a_short_name_are_read_again(slug, draw, half_dev, augmented):
    made = slug if draw is None else held_back_slug(slug, draw)
    made = half_dev_slug(made) if half_dev else made
    facts = data_facts(augmented_slug(made, augmented))
    assert (facts.source, facts.plain, facts.augmented) == (SLUGS[slug], made, augmented)
    assert (facts.held_back, facts.draw) == (draw is not None, draw or 0)
    assert facts.half_dev == half_dev
    assert data_facts(made) == facts._replace(augmented=None)
