# expect: healthy
# mypy: ignore-errors
# So few weights, all inputs alike, and nothing left to learn: the gradients are multiples of the smallest differences.
import torch

torch.manual_seed(3)
model = torch.nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(60):
    loss = (model(torch.ones(8, 5)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
