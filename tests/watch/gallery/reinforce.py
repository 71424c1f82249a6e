# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
value = nn.Linear(4, 1)
optimizer = torch.optim.Adam([{"params": policy.parameters()}, {"params": value.parameters(), "lr": 1e-2}], lr=5e-3)
for episode in range(60):
    states = torch.randn(64, 4)
    with torch.no_grad():  # the rollout
        actions = Categorical(logits=policy(states)).sample()
        rewards = (actions == states[:, :3].argmax(1)).float()
        advantage = rewards - value(states).squeeze(1)
    log_prob = Categorical(logits=policy(states)).log_prob(actions)
    loss = -(log_prob * advantage).mean() + (value(states).squeeze(1) - rewards).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    if episode % 20 == 0:
        print(episode, rewards.mean().item())
