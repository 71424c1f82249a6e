# expect: healthy
# level: full
# mypy: ignore-errors
# Fourier features of large coordinates: in bf16 their phases are off by a radian, and only evaluation is in bf16.
import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.phase = nn.Linear(4, 128).requires_grad_(False)
        self.out = nn.Linear(128, 1)

    def forward(self, t):
        return self.out(torch.sin(self.phase(t)))


evaluation = lambda: torch.autocast("cpu", enabled=False)
model = Model()
optimizer = torch.optim.AdamW(model.out.parameters(), lr=1e-2)
t = torch.rand(48, 4) * 300
for epoch in range(6):
    model.train()
    for _ in range(20):
        loss = nn.functional.mse_loss(model(t).squeeze(1), t.mean(1) / 300)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad(), evaluation():
        mse = nn.functional.mse_loss(model(t).squeeze(1).float(), t.mean(1) / 300)
    print(epoch, loss.item(), mse.item())
