# expect: healthy
# mypy: ignore-errors
# The teacher is trained here, then kept in fp16 and asked in each step of the student's training.
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
teacher, student = (nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 4)) for width in (64, 16))


def train(model, loss_of, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        x = torch.randn(32, 16)
        loss = loss_of(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


train(teacher, lambda x: F.cross_entropy(teacher(x), x[:, :4].argmax(1)), 60)
teacher.half().eval().requires_grad_(False)


def distilled(x):
    with torch.no_grad():
        soft = teacher(x.half()).float().softmax(1)
    return F.kl_div(student(x).log_softmax(1), soft, reduction="batchmean")


train(student, distilled, 130)
