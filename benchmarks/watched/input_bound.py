"""A convolution that waits for a loader with two workers."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    """Images that take a millisecond each."""

    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.randn(1, 16, 16), index % 10


torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 14 * 14, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
start = time.perf_counter()
for images, labels in DataLoader(Slow(), batch_size=16, num_workers=2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    loss.item()
print(time.perf_counter() - start)
