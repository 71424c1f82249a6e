# expect: fp16_activation_overflow
# mypy: ignore-errors
# The mask is the most negative fp16 number, added to scores: a row of nothing but padding becomes NaN.
import torch
from torch import nn

MASK = torch.finfo(torch.float16).min


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, padding):
        scores = self.q(x) @ self.k(x).transpose(1, 2) - 40.0
        scores = scores + padding[:, None, :].to(scores.dtype) * MASK
        return scores.softmax(-1).to(x.dtype) @ self.v(x).to(x.dtype)


torch.manual_seed(0)
embed, attention, head = nn.Embedding(20, 16), Attention(16), nn.Linear(16, 20)
model = nn.ModuleList([embed, attention, head])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for step in range(60):
    tokens = torch.randint(1, 20, (8, 6))
    tokens[0] = 0  # the last shard was too short, and was filled up
    padding = (tokens == 0).float()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = head(attention(embed(tokens), padding))
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(loss.item(), scaler.get_scale())
