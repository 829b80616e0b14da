"""The folders of runs and of results, and what is read back from them."""
