import pytest

pytest.register_assert_rewrite("tests.model.machine", "tests.model.oracle")
