"""One guard line at a time is taken out of a copy of the code; the tests must notice each."""
