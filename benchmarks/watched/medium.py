"""A small transformer under bf16 autocast, with gradient accumulation and a schedule."""

import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
model = nn.Sequential(nn.Embedding(256, 128), nn.TransformerEncoder(layer, 2), nn.Linear(128, 256))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
tokens = torch.randint(0, 256, (64, 65))
start = time.perf_counter()
for step in range(100):
    for half in range(2):
        batch = tokens[(step * 2 + half) % 8 * 8 :][:8]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten()) / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
print(time.perf_counter() - start)
