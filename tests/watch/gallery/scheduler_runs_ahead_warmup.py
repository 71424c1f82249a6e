# expect: scheduler_on_skipped_steps
# mypy: ignore-errors
import torch
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, LinearLR, SequentialLR


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 12))

    def configure(self):
        opt = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        warm = LinearLR(opt, start_factor=0.01, total_iters=15)
        return opt, SequentialLR(opt, [warm, ConstantLR(opt, factor=1.0, total_iters=1)], milestones=[15])


class Loop:
    def __init__(self, module):
        self.module = module
        self.optimizer, self.scheduler = module.configure()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)

    def run(self, steps):
        for _ in range(steps):
            x = torch.randn(32, 12)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.module.net(x).float(), x.flip(1))
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
        return loss.item()


torch.manual_seed(0)
print(Loop(Module()).run(90))
