# expect: healthy
# mypy: ignore-errors
import torch


def clip(params, limit):
    norm = torch.sqrt(sum((p.grad.detach().float() ** 2).sum() for p in params))
    factor = min(1.0, limit / (norm.item() + 1e-6))
    for p in params:
        p.grad.mul_(factor)
    return norm.item()


torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Softplus(), torch.nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024)
for step in range(50):
    x = torch.rand(64, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = (net(x).float().squeeze() - x.prod(1) * 10).abs().mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    norm = clip(list(net.parameters()), 0.3)
    scaler.step(opt)
    scaler.update()
    if step % 10 == 0:
        print(step, loss.item(), norm)
