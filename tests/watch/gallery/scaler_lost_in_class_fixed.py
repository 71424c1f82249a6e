# expect: healthy
# mypy: ignore-errors
# The checkpoint holds the scaler, and the code that loads it forgets it.
import io

import torch
from torch import nn


class Experiment:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(10, 40), nn.Tanh(), nn.Linear(40, 2))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
        self.step = 0

    def state(self):
        return {
            "net": self.net.state_dict(),
            "opt": self.opt.state_dict(),
            "scaler": self.scaler.state_dict(),
            "step": self.step,
        }

    def load(self, state):
        self.net.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        return self

    def run(self, until):
        while self.step < until:
            x = torch.randn(32, 10)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(self.net(x).float(), (x[:, 0] > 0).long())
            self.opt.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.scaler.step(self.opt)
            self.scaler.update()
            self.step += 1
        print(self.step, loss.item(), self.scaler.get_scale())
        return self


torch.manual_seed(0)
buffer = io.BytesIO()
torch.save(Experiment().run(50).state(), buffer)
buffer.seek(0)
Experiment().load(torch.load(buffer)).run(100)
