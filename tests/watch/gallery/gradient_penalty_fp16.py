# expect: healthy
# mypy: ignore-errors
# The recipe of torch's AMP examples: scale for autograd.grad, unscale by hand, then add the penalty.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
for step in range(60):
    x = torch.randn(64, 10)
    target = x[:, :1] * 0.5
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x)
        loss = nn.functional.mse_loss(output.float(), target)
    scaled_grads = torch.autograd.grad(outputs=scaler.scale(loss), inputs=model.parameters(), create_graph=True)
    inv_scale = 1.0 / scaler.get_scale()
    grad_params = [p * inv_scale for p in scaled_grads]
    with torch.autocast("cpu", dtype=torch.float16):
        grad_norm = sum(g.float().pow(2).sum() for g in grad_params).sqrt()
        loss = loss + 0.01 * grad_norm
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0:
        print(step, loss.item())
