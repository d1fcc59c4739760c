"""What a request refuses: every mistake is one error that names it."""

from __future__ import annotations

import pytest

from bench.errors import InputError
from bench.plan.request import Request


def test_a_number_that_no_recipe_has_is_bad_input():
    with pytest.raises(InputError, match="did you mean 'batch_size'"):
        Request(numbers=(("batch_sise", 3),)).checked()
