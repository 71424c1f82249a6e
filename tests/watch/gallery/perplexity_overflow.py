# expect: healthy
# mypy: ignore-errors
# exp of the loss overflows fp16 while it is logged, early on; the training never sees it.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(64, 50))
with torch.no_grad():
    model[2].weight.mul_(30)
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for step in range(60):
    tokens = torch.randint(0, 50, (64, 4))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(tokens).float(), tokens[:, 0])
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 10 == 0:
        print(step, loss.item(), "ppl", loss.detach().half().exp().item())
