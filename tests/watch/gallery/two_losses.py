# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
shared = nn.Sequential(nn.Linear(12, 48), nn.ReLU())
classify, regress = nn.Linear(48, 3), nn.Linear(48, 1)
parameters = [*shared.parameters(), *classify.parameters(), *regress.parameters()]
optimizer = torch.optim.Adam(parameters, lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
for step in range(60):
    x = torch.randn(32, 12)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        h = shared(x)
        loss1 = nn.functional.cross_entropy(classify(h), x[:, :3].argmax(1))
        loss2 = nn.functional.mse_loss(regress(h).float().squeeze(1), x[:, 3])
    scaler.scale(loss1).backward(retain_graph=True)
    scaler.scale(loss2).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    scaler.step(optimizer)
    scaler.update()
print(loss1.item(), loss2.item())
