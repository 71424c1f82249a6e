# expect: healthy
# or: not_enough_evidence
# mypy: ignore-errors
# Trained in fp32, validated under bf16 autocast for speed: coarser, and the accuracy is the same.
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X, y = torch.as_tensor(X).float() / 16, torch.as_tensor(y)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(100):
    i = torch.randint(1400, (64,))
    loss = nn.functional.cross_entropy(net(X[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
with torch.no_grad():
    exact = (net(X[1400:]).argmax(1) == y[1400:]).float().mean()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fast = (net(X[1400:]).argmax(1) == y[1400:]).float().mean()
print(f"fp32 {exact:.4f} bf16 {fast:.4f}")
