"""Studies with people: consent, games, questions, and the data of them."""
