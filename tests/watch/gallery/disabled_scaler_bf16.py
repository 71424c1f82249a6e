# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
precision = "bf16"
dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[precision]
scaler = torch.amp.GradScaler("cpu", enabled=(precision == "fp16"))
model = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 4))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
for step in range(70):
    x = torch.randn(32, 32)
    with torch.autocast("cpu", dtype=dtype):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
print(loss.item(), scaler.get_scale())
