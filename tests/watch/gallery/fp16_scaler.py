# expect: healthy
# mypy: ignore-errors
import argparse

import torch
import torch.nn as nn
from torch.amp import GradScaler, autocast


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


def main(args):
    torch.manual_seed(0)
    use_amp = True
    model = nn.Sequential(nn.Linear(40, 80), nn.ReLU(), nn.Linear(80, 80), nn.ReLU(), nn.Linear(80, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    scaler = GradScaler("cpu", enabled=use_amp)
    for step in range(args.steps):
        inputs = torch.randn(64, 40)
        labels = inputs[:, :6].argmax(dim=1)
        with autocast("cpu", dtype=torch.float16, enabled=use_amp):
            outputs = model(inputs)
            loss = criterion(outputs, labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(f"{step:4d} {loss.item():.4f} {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main(get_args())
