"""The command line of behaviour cloning: games of people, a model of them, and its results."""
