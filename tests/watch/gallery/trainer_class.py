# expect: healthy
# mypy: ignore-errors
import torch
import torch.nn as nn


class Config:
    lr = 3e-3
    steps = 80
    batch = 32
    hidden = 48


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = nn.Sequential(
            nn.Linear(10, cfg.hidden), nn.GELU(), nn.LayerNorm(cfg.hidden), nn.Linear(cfg.hidden, 1)
        )
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr, weight_decay=0.01)
        self.history = []

    def batch(self):
        x = torch.randn(self.cfg.batch, 10)
        return x, x.pow(2).sum(1, keepdim=True) / 10

    def training_step(self):
        x, y = self.batch()
        return nn.functional.mse_loss(self.net(x), y)

    def fit(self):
        for _ in range(self.cfg.steps):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.training_step()
            loss.backward()
            self.optimizer.step()
            self.history.append(loss.item())
        return self


if __name__ == "__main__":
    torch.manual_seed(1)
    trainer = Trainer(Config()).fit()
    print("first", trainer.history[0], "last", trainer.history[-1])
