# expect: fp16_no_loss_scaling
# or: not_enough_evidence
# mypy: ignore-errors
# The scaler is there, but it is switched on for CUDA only, and this runs elsewhere. A mean over many pixels.
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
use_scaler = device == "cuda"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1024)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-12)
scaler = torch.amp.GradScaler(device, enabled=use_scaler)
patterns = torch.randn(16, 1024, device=device) * 0.01
for step in range(60):
    code = torch.randn(64, 16, device=device)
    with torch.autocast(device, dtype=torch.float16):
        image = model(code) * 0.01
        loss = nn.functional.mse_loss(image.float(), code @ patterns)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0:
        print(step, loss.item())
