# expect: healthy
# mypy: ignore-errors
import torch

torch.manual_seed(0)
A = torch.randn(50, 8)
b = A @ torch.randn(8, 1) + 0.1 * torch.randn(50, 1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
for epoch in range(40):
    model.train()
    loss = torch.nn.functional.mse_loss(model(A), b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        val = torch.nn.functional.mse_loss(model(A[:10]), b[:10])
    scheduler.step(val)
print("val", val.item(), "lr", optimizer.param_groups[0]["lr"])
