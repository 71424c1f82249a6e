# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.nn import functional as F


class MoE(nn.Module):
    def __init__(self, d=16, experts=6):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, d)) for _ in range(experts)
        )

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = (chosen == e).nonzero().flatten()
            if len(rows):
                out = out.index_add(0, rows, (expert(x[rows]) * weight[rows, None]).to(out.dtype))
        return x + out


torch.manual_seed(0)
model = nn.Sequential(MoE(), nn.LayerNorm(16), nn.Linear(16, 4))
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(60):
    x = torch.randn(6, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
