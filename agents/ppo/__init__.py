"""PPO: collecting rollouts, advantages, the loss and the update."""
