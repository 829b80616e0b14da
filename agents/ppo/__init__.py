"""PPO: rollouts, advantage estimation, the loss and the update."""
