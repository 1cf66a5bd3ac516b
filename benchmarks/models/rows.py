"""The rows of GraphMend's table that run offline, as small models with random weights on transformers 4.52.4.

`build(name)` gives a model in eval mode and the keyword arguments of its forward, seeded. Rows that share modeling code
are one build here; `ROWS` says how many rows of the table each stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

VOCABULARY = 128
ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
}
SEQ2SEQ = {
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}
Build = tuple[Any, dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A model, how many rows of the table it stands for, and the graph breaks of the unchanged library.

    `breaks` was measured on torch 2.13.0 CPU; `run.py` says when a run differs from it. `other` gives arguments that
    take the arm of a branch which the row itself does not take: outputs are compared there too, graphs not counted.
    """

    build: Callable[[], Build]
    stands_for: int
    breaks: int
    tolerance: float = 1e-5
    other: Callable[[], dict[str, Any]] | None = None


def ids(low: int = 0, length: int = 8) -> Any:
    """Random token ids, `(1, length)`."""
    import torch

    return torch.randint(low, VOCABULARY, (1, length))


def t5() -> Build:
    """T5 with a language model head; `mt5` and `umt5` style rows share its stack."""
    import transformers as tf

    config = tf.T5Config(vocab_size=VOCABULARY, d_model=64, d_ff=128, num_layers=2, num_heads=2, d_kv=32)
    return tf.T5ForConditionalGeneration(config), {"input_ids": ids(), "decoder_input_ids": ids()}


def whisper() -> Build:
    """Whisper on random features, `(1, 80 mel bins, 128 frames)`."""
    import torch
    import transformers as tf

    special = {"decoder_start_token_id": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = tf.WhisperConfig(**SEQ2SEQ, num_mel_bins=80, max_source_positions=64, max_target_positions=64, **special)
    inputs = {"input_features": torch.randn(1, 80, 128), "decoder_input_ids": ids()}
    return tf.WhisperForConditionalGeneration(config), inputs


def bart() -> Build:
    """Bart with a language model head."""
    import transformers as tf

    config = tf.BartConfig(**SEQ2SEQ, max_position_embeddings=64)
    return tf.BartForConditionalGeneration(config), {"input_ids": ids(3), "decoder_input_ids": ids(3)}


def bart_fp16() -> Build:
    """Bart in half precision, where its guard against overflow is live."""
    import torch

    model, inputs = bart()
    return model.half(), {
        **inputs,
        "decoder_input_ids": ids(3, 1),
        "attention_mask": torch.ones(1, 8, dtype=torch.long),
    }


def biogpt() -> Build:
    """BioGPT with a language model head."""
    import transformers as tf

    return tf.BioGptForCausalLM(tf.BioGptConfig(**ENCODER)), {"input_ids": ids()}


def blenderbot() -> Build:
    """Blenderbot with a language model head."""
    import transformers as tf

    config = tf.BlenderbotConfig(**SEQ2SEQ, max_position_embeddings=64)
    return tf.BlenderbotForConditionalGeneration(config), {"input_ids": ids(), "decoder_input_ids": ids()}


def marian() -> Build:
    """Marian translation."""
    import transformers as tf

    config = tf.MarianConfig(**SEQ2SEQ, max_position_embeddings=64, decoder_start_token_id=2, pad_token_id=1)
    return tf.MarianMTModel(config), {"input_ids": ids(3), "decoder_input_ids": ids(3)}


def pegasus() -> Build:
    """The decoder of Pegasus."""
    import transformers as tf

    sizes = {"decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 128, "max_position_embeddings": 64}
    return tf.PegasusForCausalLM(tf.PegasusConfig(vocab_size=VOCABULARY, d_model=64, **sizes)), {"input_ids": ids()}


def layoutlmv3() -> Build:
    """LayoutLMv3 on text and boxes."""
    import torch
    import transformers as tf

    sizes = {"max_2d_position_embeddings": 1024, "coordinate_size": 8, "shape_size": 16, "input_size": 32}
    config = tf.LayoutLMv3Config(**ENCODER, **sizes, patch_size=16, visual_embed=False)
    return tf.LayoutLMv3Model(config), {"input_ids": ids(), "bbox": torch.zeros(1, 8, 4, dtype=torch.long)}


def phi3() -> Build:
    """Phi-3 with LongRoPE: without it the model takes a path that has no branch on data."""
    import transformers as tf

    scaling = {"type": "longrope", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
    config = tf.Phi3Config(
        **ENCODER, pad_token_id=0, num_key_value_heads=2, original_max_position_embeddings=16, rope_scaling=scaling
    )
    return tf.Phi3ForCausalLM(config), {"input_ids": ids()}


def grounding_dino() -> Build:
    """Grounding DINO with a small Swin backbone and a small Bert."""
    import torch
    import transformers as tf

    stages = {"depths": [1, 1], "num_heads": [1, 1], "window_size": 2, "out_features": ["stage1", "stage2"]}
    config = tf.GroundingDinoConfig(
        backbone_config=tf.SwinConfig(image_size=32, patch_size=4, embed_dim=16, **stages),
        text_config=tf.BertConfig(**ENCODER),
        **{**SEQ2SEQ, "encoder_layers": 1, "decoder_layers": 1},
        num_queries=4,
        num_feature_levels=2,
        use_timm_backbone=False,
    )
    return tf.GroundingDinoModel(config), {"pixel_values": torch.randn(1, 3, 32, 32), "input_ids": ids()}


def longformer() -> Build:
    """Longformer on 20 tokens with windows of 8: the call of its logger stands under `padding_len > 0`."""
    import transformers as tf

    config = tf.LongformerConfig(**{**ENCODER, "max_position_embeddings": 512}, attention_window=8)
    return tf.LongformerModel(config), {"input_ids": ids(0, 20)}


def clap() -> Build:
    """Clap with fusion of long clips, which is where its data-dependent shapes are."""
    import torch
    import transformers as tf

    config = tf.ClapConfig()
    for key in ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size"):
        setattr(config.text_config, key, ENCODER[key])
    config.text_config.num_hidden_layers = 1
    config.projection_dim, config.audio_config.enable_fusion = 32, True
    inputs = {
        "input_ids": ids(),
        "attention_mask": torch.ones(1, 8, dtype=torch.long),
        "is_longer": torch.ones(1, 1, dtype=torch.bool),
        "input_features": torch.randn(1, 4, 1001, config.audio_config.num_mel_bins),
    }
    return tf.ClapModel(config), inputs


def not_longer() -> dict[str, Any]:
    """No long clip, so that nothing is fused."""
    import torch

    return {"is_longer": torch.zeros(1, 1, dtype=torch.bool)}


ROWS = {
    "t5": Row(t5, 5, 3),
    "bart": Row(bart, 3, 3),
    "bart_fp16": Row(bart_fp16, 0, 7, tolerance=1e-2),  # not one of the table's 21
    "biogpt": Row(biogpt, 1, 2),
    "marian": Row(marian, 1, 3),
    "pegasus": Row(pegasus, 1, 2),
    "whisper": Row(whisper, 3, 3),
    "blenderbot": Row(blenderbot, 1, 3),
    "layoutlmv3": Row(layoutlmv3, 1, 2),
    "phi3": Row(phi3, 1, 5, other=lambda: {"input_ids": ids(length=24)}),
    "grounding_dino": Row(grounding_dino, 2, 16),
    "longformer": Row(longformer, 1, 5, other=lambda: {"input_ids": ids(length=24)}),
    "clap": Row(clap, 1, 2, other=not_longer),
}


def build(name: str, seed: int = 0) -> Build:
    """The model of a row, in eval mode, and the arguments of its forward."""
    import torch

    torch.manual_seed(seed)
    model, inputs = ROWS[name].build()
    return model.eval(), inputs
