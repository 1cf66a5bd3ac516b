"""A small speech encoder: a convolutional front end, then transformer layers, as one would train in half precision."""

import logging
import math

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


class ConvFrontEnd(nn.Module):
    """Halve the frame rate of log-mel features and lift them to the width of the encoder."""

    def __init__(self, n_mels, d_model):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, d_model, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(d_model, d_model, kernel_size=3, stride=2, padding=1)

    def forward(self, features):
        if features.abs().max() > 1.0:
            # loud recordings are limited softly
            features = torch.tanh(features)
            features = features * 2.0
        else:
            features = features * 8.0
        hidden = F.gelu(self.conv1(features))
        hidden = F.gelu(self.conv2(hidden))
        return hidden.transpose(1, 2)


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        batch, frames, width = x.shape

        def split(t):
            return t.view(batch, frames, self.n_heads, width // self.n_heads).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)))
        return self.out(mixed.transpose(1, 2).reshape(batch, frames, width))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = SelfAttention(d_model, n_heads)
        self.attention_norm = nn.LayerNorm(d_model)
        self.fc1 = nn.Linear(d_model, d_ff)
        self.fc2 = nn.Linear(d_ff, d_model)
        self.final_norm = nn.LayerNorm(d_model)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.attention(self.attention_norm(hidden_states))
        hidden_states = residual + hidden_states

        residual = hidden_states
        hidden_states = self.fc2(F.gelu(self.fc1(self.final_norm(hidden_states))))
        hidden_states = residual + hidden_states

        # half precision overflows here now and then
        if torch.isinf(hidden_states).any() or torch.isnan(hidden_states).any():
            hidden_states = torch.clamp(hidden_states, min=-64000.0, max=64000.0)
        return hidden_states


class SpeechEncoder(nn.Module):
    """Log-mel features `(batch, n_mels, frames)` to hidden states `(batch, frames / 2, d_model)`."""

    def __init__(self, n_mels=40, d_model=64, n_heads=4, d_ff=128, n_layers=2, max_frames=256):
        super().__init__()
        self.front_end = ConvFrontEnd(n_mels, d_model)
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model)
        self.register_buffer("positions", sinusoids(max_frames, d_model), persistent=False)

    def forward(self, features):
        hidden_states = self.front_end(features)
        hidden_states = hidden_states + self.positions[: hidden_states.size(1)]
        logger.debug("encoding %d frames", hidden_states.size(1))
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.norm(hidden_states)


def sinusoids(length, channels):
    """Sinusoidal positions `(length, channels)`."""
    scale = torch.exp(-math.log(10000.0) * torch.arange(channels // 2) / (channels // 2 - 1))
    angles = torch.arange(length)[:, None] * scale[None, :]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def build():
    torch.manual_seed(0)
    return SpeechEncoder().eval()


def make_inputs():
    """A quiet recording, a loud one, and one that overflows."""
    torch.manual_seed(1)
    quiet = 0.1 * torch.randn(2, 40, 64)
    loud = 4.0 * torch.randn(2, 40, 64)
    overflowing = loud.clone()
    overflowing[0, 3, 10] = float("inf")
    return [((quiet.clamp(-0.9, 0.9),), {}), ((loud,), {}), ((overflowing,), {})]
