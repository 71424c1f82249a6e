# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, users=500, items=300, dim=16):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=True)
        self.item = nn.Embedding(items, dim, sparse=True)
        self.top = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, u, i):
        return self.top(torch.cat([self.user(u), self.item(i)], -1)).squeeze(-1)


torch.manual_seed(0)
model = Recommender()
sparse_opt = torch.optim.SparseAdam([*model.user.parameters(), *model.item.parameters()], lr=1e-2)
dense_opt = torch.optim.Adam(model.top.parameters(), lr=1e-3)
taste = torch.randn(500, 300).sign()
for step in range(50):
    u, i = torch.randint(0, 500, (128,)), torch.randint(0, 300, (128,))
    loss = nn.functional.binary_cross_entropy_with_logits(model(u, i), (taste[u, i] > 0).float())
    sparse_opt.zero_grad()
    dense_opt.zero_grad()
    loss.backward()
    sparse_opt.step()
    dense_opt.step()
    if step % 10 == 0:
        print(step, loss.item())
