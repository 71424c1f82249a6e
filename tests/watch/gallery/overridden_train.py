# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn


class Detector(nn.Module):
    """Keeps its batch norm frozen, whatever mode it is in."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(9, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.box = nn.Linear(32, 4)
        self.cls = nn.Linear(32, 3)

    def train(self, is_training=True, *, keep_frozen=True):
        super().train(is_training)
        if keep_frozen:
            for m in self.modules():
                if isinstance(m, nn.BatchNorm1d):
                    m.eval()

    def forward(self, x):
        h = self.stem(x)
        return {"box": self.box(h), "scores": self.cls(h)}


torch.manual_seed(0)
net = Detector()
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
for epoch in range(4):
    net.train()
    for _ in range(20):
        x = torch.randn(32, 9)
        out = net(x)
        loss = nn.functional.smooth_l1_loss(out["box"], x[:, :4]) + nn.functional.cross_entropy(
            out["scores"], x[:, :3].argmax(1)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.train(is_training=False)
    with torch.no_grad():
        print(epoch, loss.item(), net(torch.randn(5, 9))["scores"].argmax(1).tolist())
