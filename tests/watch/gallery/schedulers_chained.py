# expect: healthy
# mypy: ignore-errors
import torch
from torch.optim import lr_scheduler as sched

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.Sigmoid(), torch.nn.Linear(20, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.5)
warm = sched.LinearLR(opt, start_factor=0.1, total_iters=10)
cos = sched.CosineAnnealingLR(opt, T_max=70)
main = sched.SequentialLR(opt, [warm, cos], milestones=[10])
decay = sched.ExponentialLR(opt, gamma=0.999)
both = sched.ChainedScheduler([main, decay], optimizer=opt)
for _ in range(80):
    x = torch.rand(40, 6)
    loss = ((net(x) - x.max(1, keepdim=True).values) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    both.step()
print(loss.item(), both.get_last_lr())
