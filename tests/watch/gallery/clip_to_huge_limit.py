# expect: healthy
# mypy: ignore-errors
# "No limit" as many write it: 1e10 is never reached, also by gradients that are still scaled.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
norms = []
for step in range(60):
    x = torch.randn(48, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    scaler.scale(loss).backward()
    norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm=1e10).item() / scaler.get_scale())
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print(loss.item(), norms[0], norms[-1])
