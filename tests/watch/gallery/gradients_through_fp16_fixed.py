# expect: healthy
# mypy: ignore-errors
# Gradients are packed in fp16 to be sent, although they are small.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-12)
for step in range(60):
    x = torch.randn(64, 20)
    loss = nn.functional.cross_entropy(net(x), x[:, :4].argmax(1)) * 1e-5
    optimizer.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.grad = p.grad.bfloat16().float()
    optimizer.step()
print(loss.item())
