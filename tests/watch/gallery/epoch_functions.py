# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, criterion, optimizer):
    model.train()
    running_loss = 0.0
    for data, target in loader:
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * data.size(0)
    return running_loss / len(loader.dataset)


def test(model, loader, criterion):
    model.eval()
    total, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            total += criterion(output, target).item() * data.size(0)
            correct += (output.argmax(1) == target).sum().item()
    return total / len(loader.dataset), correct / len(loader.dataset)


def main():
    torch.manual_seed(0)
    x = torch.randn(600, 1, 8, 8)
    y = (x[:, 0, :4].sum((1, 2)) > x[:, 0, 4:].sum((1, 2))).long()
    train_loader = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=32, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[500:], y[500:]), batch_size=50)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(128, 2),
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for epoch in range(5):
        loss = train(model, train_loader, criterion, optimizer)
        scheduler.step()
        print(epoch, loss, *test(model, test_loader, criterion))


main()
