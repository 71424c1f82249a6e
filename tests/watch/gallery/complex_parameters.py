# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn


class SpectralConv(nn.Module):
    """A Fourier layer: multiplies low modes with complex weights."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, dtype=torch.cfloat) / channels)

    def forward(self, x):
        f = torch.fft.rfft(x)
        out = torch.zeros_like(f)
        out[..., : self.modes] = torch.einsum("bim,iom->bom", f[..., : self.modes], self.weight)
        return torch.fft.irfft(out, n=x.shape[-1])


torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(1, 8, 1), SpectralConv(8, 6), nn.GELU(), nn.Conv1d(8, 1, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
grid = torch.linspace(0, 6.2832, 33)[:-1]
for step in range(60):
    k = torch.randint(1, 4, (16, 1)).float()
    u = torch.sin(k * grid).unsqueeze(1)
    v = (k * torch.cos(k * grid)).unsqueeze(1)
    loss = (model(u) - v).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
