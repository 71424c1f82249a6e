# expect: low_precision_weights
# mypy: ignore-errors
# The default dtype is bf16, so every layer is created in it.
import torch

torch.set_default_dtype(torch.bfloat16)
torch.manual_seed(0)


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(16, 64)
        self.fc2 = torch.nn.Linear(64, 1)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


def train_one_epoch(model, optimizer, batches=25):
    for _ in range(batches):
        x = torch.randn(64, 16)
        loss = (model(x).squeeze(1) - x[:, 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


model = MLP()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    print(epoch, train_one_epoch(model, optimizer))
