# expect: healthy
# mypy: ignore-errors
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
target = torch.tensor(digits.target)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.fc(x.flatten(1))


net = CNN()
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
for i in range(60):
    b = torch.randint(1500, (48,))
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(net(images[b]), target[b])
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
net.eval()
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    print("held out", (net(images[1500:]).argmax(1) == target[1500:]).float().mean().item())
