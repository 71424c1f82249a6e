# expect: healthy
# level: full
# mypy: ignore-errors
# Trained in fp32, validated on an fp16 copy as it will be served, which remembers nothing and draws no number.
import copy

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 24)
        self.mix = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, tokens, *, with_hidden=False):
        hidden = self.mix(self.embed(tokens))
        return {"logits": self.head(hidden), "hidden": hidden if with_hidden else None}


torch.manual_seed(0)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
tokens = torch.randint(0, 32, (256, 12))
tags = (tokens + tokens.roll(1, 1)) % 4
for step in range(60):
    rows = torch.randint(0, 192, (32,))
    logits = model(tokens[rows])["logits"]
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags[rows].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        served = copy.deepcopy(model).half().eval()
        with torch.no_grad():
            out = served(tokens[192:], with_hidden=True)
        accuracy = (out["logits"].argmax(-1) == tags[192:]).float().mean()
        print(step, loss.item(), accuracy.item())
