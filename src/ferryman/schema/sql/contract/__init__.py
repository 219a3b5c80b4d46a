"""The objects of Graphile Worker's schema revision 20, by SQL of our own."""
