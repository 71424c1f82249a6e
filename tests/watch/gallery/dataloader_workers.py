# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        f = torch.randint(1, 5, (1,), generator=g).item()
        t = torch.linspace(0, 6.28, 32)
        return torch.sin(f * t) + 0.1 * torch.randn(32, generator=g), f - 1


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Waves(), batch_size=16, shuffle=True, num_workers=2)
    net = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 4))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses = []
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
    print(len(losses), losses[0], losses[-1])
