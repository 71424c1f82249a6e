# expect: fp16_activation_overflow
# mypy: ignore-errors
# A norm of one's own: the square is infinite in fp16, and what is divided by it is 0.
import torch
from torch import nn


class Square(nn.Module):
    def forward(self, x):
        return x * x


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.square = Square()

    def forward(self, x):
        return x * torch.rsqrt(self.square(x).mean(-1, keepdim=True) + 1e-6)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), Norm(), nn.Linear(32, 4))
optimizer, scaler = torch.optim.Adam(model.parameters(), lr=3e-3), torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(60):
    x = 2000 * torch.randn(64, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
