# expect: healthy
# mypy: ignore-errors
# The same measurement as people write it with torch.tensor or an int as the limit.
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2**10)
NO_LIMIT = torch.tensor(float("inf"))
norms = []
for step in range(40):
    x = torch.randn(48, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))
    scaler.scale(loss).backward()
    norms.append(clip_grad_norm_(model.parameters(), NO_LIMIT).item() / scaler.get_scale())
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print(loss.item(), norms[0], norms[-1])
