# expect: healthy
# mypy: ignore-errors
# A scheduler class of one's own, defined in the script after torch was imported.
import torch
from torch import nn


class InverseSqrt(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, warmup):
        self.warmup = warmup
        super().__init__(optimizer)

    def get_lr(self):
        n = self.last_epoch + 1
        return [base * min(n / self.warmup, (self.warmup / n) ** 0.5) for base in self.base_lrs]

    def step(self, epoch=None):
        super().step(epoch)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scheduler = InverseSqrt(optimizer, warmup=12)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**28)
for step in range(70):
    x = torch.randn(32, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    old = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if old <= scaler.get_scale():
        scheduler.step()
print(loss.item(), scheduler.get_last_lr())
