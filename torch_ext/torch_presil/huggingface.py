# SPDX-License-Identifier: Apache-2.0
"""Models of the transformers library by the name of their class, with random weights from their configuration, and
inputs that fit it. Nothing is fetched."""

import torch

from torch_presil.inputs import Drawn, InputSpec, ModelError

__all__ = ["is_pretrained_class", "build"]

TOKENS = 16


def is_pretrained_class(target) -> bool:
    """Whether it is a model class of transformers, which is made from a configuration; without importing the
    library."""
    return isinstance(target, type) and any(c.__name__ == "PreTrainedModel" for c in target.__mro__)


def _config(cls, settings: dict):
    if cls.config_class is None:
        raise ModelError(f"{cls.__name__} has no configuration class: name a model such as transformers:BertModel")
    config = cls.config_class()
    for key, value in settings.items():
        if not hasattr(config, key):
            raise ModelError(f"--config {key}: {type(config).__name__} has no such setting")
        setattr(config, key, type(getattr(config, key) or value)(value))
    if hasattr(config, "use_cache"):
        config.use_cache = False  # a cache is no result
    return config


def _specs(cls, config) -> list:
    vocabulary = getattr(config, "vocab_size", 2)
    tokens = lambda name: InputSpec((1, TOKENS), torch.int64, vocabulary, name)  # noqa: E731
    main = cls.main_input_name
    if main == "pixel_values":
        size, channels = getattr(config, "image_size", 224), getattr(config, "num_channels", 3)
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        specs = [InputSpec((1, channels, height, width), name=main)]
    elif main == "input_features":
        specs = [InputSpec((1, config.num_mel_bins, 2 * config.max_source_positions), name=main)]
    elif main == "input_values":
        specs = [InputSpec((1, 16000), name=main)]
    else:
        specs = [tokens("input_ids")]
    if getattr(config, "is_encoder_decoder", False):
        specs.append(tokens("decoder_input_ids"))
    return specs


def build(cls, settings: dict) -> tuple:
    """(model, Drawn); settings: attributes of the configuration, as text or values."""
    config = _config(cls, settings)
    try:
        return cls(config), Drawn(_specs(cls, config))
    except AttributeError as error:
        raise ModelError(
            f"{cls.__name__} can't be called by its name alone ({error}): write a factory that returns (model, inputs)"
        ) from error
