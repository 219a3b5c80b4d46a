"""Tests Ferryman together with workers of the Rust crate graphile_worker: `make interop-rust`.

Jobs are shared between its workers and ours, each side is killed and the other recovers, jobs are added through our
function bodies and through the crate's, and a schema goes from Node 0.16 to Ferryman, to Rust and back. What each side
did is told by handlers in a file outside PostgreSQL, one line per write. The statements that the crate sends are
compared with those that `make test` replays (`--record` writes them anew).
"""
