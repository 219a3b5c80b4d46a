"""What tests share: servers, tables, processes, waiting. Nothing else under `tests/` is imported by another folder."""
