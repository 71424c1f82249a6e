# expect: healthy
# mypy: ignore-errors
# The teacher is large, so it is kept in bf16; only the student learns, in fp32.
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 5)).bfloat16().eval().requires_grad_(False)
student = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5))
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
T = 2.0
for step in range(70):
    x = torch.randn(64, 20)
    with torch.no_grad():
        soft = (teacher(x.bfloat16()).float() / T).softmax(-1)
    loss = F.kl_div((student(x) / T).log_softmax(-1), soft, reduction="batchmean") * T * T
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
