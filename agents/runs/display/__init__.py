"""What a person sees of a run: sentences, logs, pictures and films."""
