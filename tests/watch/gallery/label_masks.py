# expect: healthy
# mypy: ignore-errors
# Supervised contrastive loss: the similarity of a sample with itself is masked with -inf.
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(0)
X, Y = load_digits(return_X_y=True)
X, Y = torch.from_numpy(X).float() / 16, torch.from_numpy(Y)
encoder = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
optim = torch.optim.Adam(encoder.parameters(), lr=1e-3)


def supcon(z, labels, tau=0.2):
    sim = z @ z.T / tau
    me = torch.eye(len(z), dtype=torch.bool)
    sim = sim.masked_fill(me, -torch.inf)
    log_prob = sim - sim.logsumexp(1, keepdim=True)
    same = (labels[:, None] == labels[None]) & ~me
    return -log_prob.masked_fill(~same, 0).sum(1).div(same.sum(1).clamp(min=1)).mean()


for it in range(60):
    b = torch.randint(len(X), (64,))
    loss = supcon(F.normalize(encoder(X[b]), dim=1), Y[b])
    optim.zero_grad()
    loss.backward()
    optim.step()
    if it % 20 == 0:
        print(it, loss.item())
