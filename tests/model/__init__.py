import pytest

pytest.register_assert_rewrite("tests.model.actions", "tests.model.machine", "tests.model.oracle")
