"""The final models of trials: files in torch's format, kept beside the entries of the store and not in them."""

import io
import pickle
from pathlib import Path

import torch
from torch import nn

from fedbench.base.errors import UserError
from fedbench.config import TrialConfig
from fedbench.models import built
from fedbench.simulation import Simulation


def final_model(run: Simulation) -> bytes:
    """Return the model that a run scored last, as the content of a file for `torch.load`: a state dict on the CPU."""
    content = io.BytesIO()
    torch.save(run.model.to_state_dict(run.state.model, run.state.buffers), content)
    return content.getvalue()


def loaded_model(file: Path, config: TrialConfig) -> nn.Module:
    """Return the model in a file that `final_model` made for a trial, on the CPU and in eval mode."""
    module = built(*config.network, config.seed).to(config.numbers.dtype)
    try:
        module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except (OSError, EOFError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{file}: not the model of this trial, or damaged ({reason})") from error
    return module.eval()
