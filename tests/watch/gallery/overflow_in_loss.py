# expect: fp16_activation_overflow
# mypy: ignore-errors
# The squared error is computed in fp16, of targets around 300: 300 ** 2 is more than 65504.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(80):
    x = torch.rand(64, 8)
    y = 250 + 100 * x[:, :1]
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
        difference = out - y.to(out.dtype)
        loss = (difference * difference).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0:
        print(step, float(loss), scaler.get_scale())
