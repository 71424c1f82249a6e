# expect: needless_scaler_with_bf16
# mypy: ignore-errors
import torch
from torch import nn

CONFIG = {"dtype": "bfloat16", "accumulate": 2, "steps": 80}


class Trainer:
    def __init__(self, model, config):
        self.model, self.config = model, config
        self.dtype = getattr(torch, config["dtype"])
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=self.dtype != torch.float32)

    def train(self):
        for i in range(self.config["steps"]):
            x = torch.randn(16, 24)
            with torch.autocast("cpu", dtype=self.dtype):
                loss = nn.functional.smooth_l1_loss(self.model(x), x.flip(1)) / self.config["accumulate"]
            self.scaler.scale(loss).backward()
            if i % self.config["accumulate"] == self.config["accumulate"] - 1:
                self.scaler.step(self.opt)
                self.scaler.update()
                self.opt.zero_grad()
        print(loss.item(), self.scaler.get_scale())


torch.manual_seed(0)
Trainer(nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 24)), CONFIG).train()
