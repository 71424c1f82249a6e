# expect: healthy
# mypy: ignore-errors
# A pretrained model brings a head that this task does not use; its weights get no gradient, in fp32 as well.
import torch
from torch import nn


class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(14, 40), nn.ReLU())
        self.lm_head = nn.Linear(40, 100)
        self.task_head = nn.Linear(40, 2)

    def forward(self, x, lm=False):
        return self.lm_head(self.body(x)) if lm else self.task_head(self.body(x))


torch.manual_seed(0)
model = Pretrained()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(70):
    x = torch.randn(32, 14)
    loss = nn.functional.cross_entropy(model(x), (x[:, 1] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
