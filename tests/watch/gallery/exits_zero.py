# expect: healthy
# mypy: ignore-errors
import sys

import torch


def main() -> int:
    torch.manual_seed(0)
    model = torch.nn.Linear(7, 1)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for epoch in range(60):
        x = torch.randn(16, 7)
        loss = (model(x) - x.mean(1, keepdim=True)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("done", loss.item())
    return 0


if __name__ == "__main__":
    sys.exit(main())
