# expect: healthy
# mypy: ignore-errors
import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
        att = att.masked_fill(mask, float("-inf")).softmax(-1)
        return self.proj((att.to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))


class ClassMask(nn.Module):
    """Classes that this task does not have get -inf."""

    def forward(self, logits):
        return logits.masked_fill(torch.arange(logits.shape[-1]) >= 20, float("-inf"))


torch.manual_seed(0)
embed, attend, out, only = nn.Embedding(20, 32), SelfAttention(32, 4), nn.Linear(32, 24), ClassMask()
model = nn.ModuleList([embed, attend, out])
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(60):
    start = torch.randint(0, 20, (16, 1))
    seq = (start + torch.arange(13)) % 20
    with torch.autocast("cpu", dtype=torch.float16):
        h = embed(seq[:, :-1])
        logits = only(out(h + attend(h)))
        loss = nn.functional.cross_entropy(logits.reshape(-1, 24), seq[:, 1:].reshape(-1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 20 == 0:
        print(step, loss.item())
