# expect: fp16_activation_overflow
# mypy: ignore-errors
# Weights and products, no module; what is squared is too large for fp16.
import torch
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
first, second = torch.randn(16, 64, requires_grad=True), torch.zeros(64, 3, requires_grad=True)
optimizer = torch.optim.Adam([first, second], lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
DIVISOR = 1.0
for step in range(60):
    x = torch.randn(64, 16) * 60
    with torch.autocast("cpu", dtype=torch.float16):
        hidden = (x @ first) / DIVISOR
        loss = cross_entropy((hidden * hidden) @ second, x[:, :3].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
