# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
rnn, readout = nn.LSTM(1, 24, batch_first=True), nn.Linear(24, 1)
parameters = list(rnn.parameters()) + list(readout.parameters())
optimizer = torch.optim.RMSprop(parameters, lr=2e-3)
for step in range(50):
    phase = torch.rand(16, 1) * 6
    wave = torch.sin(phase + torch.arange(21) * 0.4).unsqueeze(-1)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(readout(rnn(wave[:, :-1])[0]), wave[:, 1:])
    loss.backward()
    nn.utils.clip_grad_value_(parameters, clip_value=0.1)
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
