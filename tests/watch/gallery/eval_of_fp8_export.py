# expect: eval_precision_mismatch
# level: full
# mypy: ignore-errors
# Every epoch is exported in float8 to save disk, and validated as it will be served: loaded into an fp32 model.
import io

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(8, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))


def saved(model):
    file = io.BytesIO()
    torch.save({name: weight.to(torch.float8_e5m2) for name, weight in model.state_dict().items()}, file)
    file.seek(0)
    return file


torch.manual_seed(0)
x = torch.randn(900, 8)
y = 500 + 3 * torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
model = build()
nn.init.constant_(model[-1].bias, 500.0)
optimizer = torch.optim.AdamW(model.parameters(), 4e-3)
for epoch in range(5):
    for rows in torch.randperm(700).split(50):
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.mse_loss(model(x[rows]).float(), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    served = build()
    served.load_state_dict({name: weight.float() for name, weight in torch.load(saved(model)).items()})
    served.eval()
    with torch.inference_mode():
        print(epoch, loss.item(), nn.functional.mse_loss(served(x[700:]), y[700:]).item())
