"""The statements that read and change the state of a schema."""
