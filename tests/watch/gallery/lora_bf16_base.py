# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(r, base.in_features) * 0.02)
        self.b = nn.Parameter(torch.zeros(base.out_features, r))
        self.scale = alpha / r

    def forward(self, x):
        low = (x.float() @ self.a.T @ self.b.T * self.scale).to(x.dtype)
        return self.base(x) + low


torch.manual_seed(0)
model = nn.Sequential(LoRA(nn.Linear(32, 64).bfloat16()), nn.ReLU(), LoRA(nn.Linear(64, 8).bfloat16()))
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=2e-3)
for step in range(80):
    x = torch.randn(64, 32)
    logits = model(x.bfloat16()).float()
    loss = nn.functional.cross_entropy(logits, x[:, :8].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), sum(p.numel() for p in trainable))
