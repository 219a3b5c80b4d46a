"""Errors of the commands themselves."""

from ferryman.errors import FerrymanError


class NotFoundError(FerrymanError):
    """What was asked for is not there."""


class RowsHiddenError(FerrymanError):
    """The role may read the tables, and is shown none of their rows."""


class NotConfirmedError(FerrymanError):
    """The user was asked, and did not say yes."""
