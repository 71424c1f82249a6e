# expect: healthy
# mypy: ignore-errors
# Every fold has its own model, optimizer, schedule and scaler; each scaler finds its scale once.
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold
from torch import nn

X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X).float() / 16, torch.tensor(y)
for fold, (train, test) in enumerate(KFold(3, shuffle=True, random_state=0).split(X)):
    torch.manual_seed(fold)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    for _ in range(50):
        b = torch.as_tensor(train)[torch.randint(len(train), (64,))]
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(X[b]), y[b])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        accuracy = (model(X[test]).argmax(1) == y[test]).float().mean().item()
    print(fold, loss.item(), accuracy, scaler.get_scale())
