# expect: healthy
# mypy: ignore-errors
# A deep stack without norms: activations double in each layer, and bf16 would have had the range.
import torch
from torch import nn

DTYPE = torch.bfloat16
torch.manual_seed(0)
layers = []
for _ in range(10):
    layers += [nn.Linear(32, 32), nn.ReLU()]
    nn.init.normal_(layers[-2].weight, std=1.0)
model = nn.Sequential(*layers, nn.LayerNorm(32), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(60):
    x = torch.randn(32, 32)
    with torch.autocast("cpu", dtype=DTYPE):
        loss = nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
