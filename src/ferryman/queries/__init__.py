"""Every SQL statement that is not part of the schema, one file each, with a typed caller."""
