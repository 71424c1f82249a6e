# expect: not_enough_evidence
# mypy: ignore-errors
# Nothing is trained here: a model is loaded in fp16 and used.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).half().eval()
with torch.inference_mode():
    for batch in range(30):
        out = model(torch.randn(32, 64).half())
        if batch % 10 == 0:
            print(batch, out.float().softmax(-1).max().item())
