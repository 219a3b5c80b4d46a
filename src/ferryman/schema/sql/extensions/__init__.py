"""Objects of our own and their removal, one file each."""
