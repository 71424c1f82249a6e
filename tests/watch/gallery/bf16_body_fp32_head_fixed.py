# expect: healthy
# mypy: ignore-errors
# Only the large part is in bf16; a small learning rate for fine-tuning.
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
head = nn.Linear(64, 5)
optimizer = torch.optim.AdamW([{"params": body.parameters(), "lr": 1e-5}, {"params": head.parameters(), "lr": 1e-3}])
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 80)
for step in range(80):
    x = torch.randn(32, 32)
    features = body(x).float()
    loss = nn.functional.cross_entropy(head(features), x[:, :5].argmax(1))
    loss.backward()
    nn.utils.clip_grad_norm_([*body.parameters(), *head.parameters()], 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
print(loss.item())
