"""Playing episodes with a policy, and statistics of their returns."""
