"""Programs as the reference saves them: python make_pt2.py OUTDIR [NAME…].

OUTDIR/<name>/model.pt2 is what transformers.exporters makes of a tiny random model, with every axis dynamic; io_<shape>.
safetensors has the leaves of the inputs (in0, in1, …) and what the model itself computes of them (out0, …), at the shape of
the trace ("traced") and at others. A file refused_<shape>.safetensors has inputs that the program itself, run in Python,
does not take: its guards do not hold.
"""

import os
import sys
import warnings

from reference_folder import exit_if_current, mark_current

exit_if_current(__file__)

import torch
import torch.utils._pytree as pytree
import transformers as tf
from safetensors.torch import save_file
from transformers.exporters import DynamoConfig, DynamoExporter

warnings.filterwarnings("ignore")
tf.logging.set_verbosity_error()
torch.set_grad_enabled(False)

VOCABULARY = 50
TEXT = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=40)
DECODER = dict(TEXT, num_key_value_heads=1, head_dim=8, pad_token_id=0, bos_token_id=1, eos_token_id=2)
VISION = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=16, patch_size=8)


def ids(batch, length):
    return torch.randint(3, VOCABULARY, (batch, length))


def mask(batch, length):
    """The first sequence whole, others shorter."""
    lengths = torch.tensor([max(1, length - row) for row in range(batch)])
    return (torch.arange(length)[None, :] < lengths[:, None]).long()


def text(model, batch, length):
    return {"input_ids": ids(batch, length), "attention_mask": mask(batch, length)}


def with_cache(model, batch, length, past):
    cache = tf.DynamicCache(config=model.config)
    model(input_ids=ids(batch, past), cache=cache)
    return {"input_ids": ids(batch, length), "attention_mask": torch.ones(batch, past + length, dtype=torch.long),
            "cache": cache}


def no_cache(model, batch, length):
    return {**text(model, batch, length), "use_cache": False}


def plain_ids(model, batch, length):
    return {"input_ids": ids(batch, length), "use_cache": False}


def encoder_decoder_with_cache(model, batch, length, decoder_length):
    return {**text(model, batch, length), "decoder_input_ids": ids(batch, decoder_length)}


def encoder_decoder(model, batch, length, decoder_length):
    return {**text(model, batch, length), "decoder_input_ids": ids(batch, decoder_length), "use_cache": False}


def image(model, batch):
    size = model.config.image_size
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def square(size):
    return lambda model, batch: {"pixel_values": torch.randn(batch, 3, size, size)}


def picture(model, batch, height, width):
    return {"pixel_values": torch.randn(batch, 3, height, width)}


def text_and_image(model, texts, length, images):
    size = model.config.vision_config.image_size
    return {"input_ids": ids(texts, length), "attention_mask": mask(texts, length),
            "pixel_values": torch.randn(images, 3, size, size)}


def text_about_image(model, batch, length):
    """Each row of text begins with the places of its image's patches."""
    vision = model.config.vision_config
    patches = (vision.image_size // vision.patch_size) ** 2
    tokens = ids(batch, patches + length)
    tokens[:, :patches] = model.config.image_token_id
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens),
            "pixel_values": torch.randn(batch, 3, vision.image_size, vision.image_size)}


def audio(model, batch, samples):
    return {"input_values": torch.randn(batch, samples)}


def whisper(model, batch, length):
    return {"input_features": torch.randn(batch, 8, 2 * model.config.max_source_positions),
            "decoder_input_ids": ids(batch, length), "use_cache": False}


# name: class, config, inputs, shapes (the first is traced)
LENGTHS = [(2, 7), (3, 12), (1, 5), (2, 1), (1, 1)]
CACHED = [(2, 3, 5), (3, 1, 8), (1, 2, 6), (1, 1, 1)]
PAIRS = [(2, 7, 5), (3, 4, 9), (1, 6, 3), (2, 3, 1)]
BATCHES = [(2,), (3,), (1,)]
PICTURES = [(2, 32, 64), (3, 64, 32), (1, 96, 96)]
MODELS = {
    "bert": (tf.BertModel, tf.BertConfig(**TEXT), text, LENGTHS),
    "roberta": (tf.RobertaForSequenceClassification, tf.RobertaConfig(**TEXT, num_labels=3), text, LENGTHS),
    "distilbert": (tf.DistilBertForMaskedLM,
                   tf.DistilBertConfig(vocab_size=VOCABULARY, dim=16, hidden_dim=24, n_layers=2, n_heads=2,
                                       max_position_embeddings=40), text, LENGTHS),
    "albert": (tf.AlbertModel, tf.AlbertConfig(**TEXT, embedding_size=8), text, LENGTHS),
    "deberta_v2": (tf.DebertaV2Model,
                   tf.DebertaV2Config(**TEXT, relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm",
                                      share_att_key=True, pos_att_type=["p2c", "c2p"]), text, LENGTHS),
    "mpnet": (tf.MPNetModel, tf.MPNetConfig(**TEXT), text, LENGTHS),
    "modernbert": (tf.ModernBertModel,
                   tf.ModernBertConfig(**TEXT, global_attn_every_n_layers=2, local_attention=4, pad_token_id=0,
                                       reference_compile=False), text, LENGTHS),
    "gpt2": (tf.GPT2LMHeadModel, tf.GPT2Config(vocab_size=VOCABULARY, n_positions=40, n_embd=16, n_layer=2, n_head=2),
             with_cache, CACHED),
    "llama": (tf.LlamaForCausalLM, tf.LlamaConfig(**DECODER), with_cache, CACHED),
    "mistral": (tf.MistralForCausalLM, tf.MistralConfig(**DECODER, sliding_window=4), no_cache, LENGTHS),
    "qwen3": (tf.Qwen3ForCausalLM, tf.Qwen3Config(**DECODER), with_cache, CACHED),
    "gemma2": (tf.Gemma2ForCausalLM, tf.Gemma2Config(**DECODER, sliding_window=4, query_pre_attn_scalar=8), no_cache,
               LENGTHS),
    "gpt_neox": (tf.GPTNeoXForCausalLM, tf.GPTNeoXConfig(**TEXT), with_cache, CACHED),
    "opt": (tf.OPTForCausalLM,
            tf.OPTConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=24,
                         max_position_embeddings=40, word_embed_proj_dim=16), no_cache, LENGTHS),
    "bloom": (tf.BloomForCausalLM, tf.BloomConfig(vocab_size=VOCABULARY, hidden_size=16, n_layer=2, n_head=2), no_cache,
              LENGTHS),
    "mixtral": (tf.MixtralForCausalLM,
                tf.MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2, sliding_window=None), no_cache,
                LENGTHS),
    "qwen2_moe": (tf.Qwen2MoeForCausalLM,
                  tf.Qwen2MoeConfig(**{k: v for k, v in DECODER.items() if k != "head_dim"}, num_experts=4,
                                    num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=12),
                  no_cache, LENGTHS),
    "mamba": (tf.MambaForCausalLM, tf.MambaConfig(vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=2),
              plain_ids, [(2, 7), (3, 7), (1, 7), (2, 5)]),
    "mamba2": (tf.Mamba2ForCausalLM,
               tf.Mamba2Config(vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=2, num_heads=4,
                               head_dim=8, n_groups=1, chunk_size=4), plain_ids, LENGTHS),
    "t5": (tf.T5ForConditionalGeneration,
           tf.T5Config(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
                       decoder_start_token_id=0), encoder_decoder_with_cache, PAIRS),
    "bart": (tf.BartForConditionalGeneration,
             tf.BartConfig(vocab_size=VOCABULARY, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                           decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=40),
             encoder_decoder, PAIRS),
    "whisper": (tf.WhisperForConditionalGeneration,
                tf.WhisperConfig(vocab_size=VOCABULARY, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1,
                                 encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24,
                                 decoder_ffn_dim=24, max_source_positions=10, max_target_positions=20, pad_token_id=0,
                                 bos_token_id=1, eos_token_id=2, decoder_start_token_id=1), whisper,
                [(2, 5), (3, 8), (1, 4)]),
    "wav2vec2": (tf.Wav2Vec2Model,
                 tf.Wav2Vec2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                   conv_dim=(8, 8), conv_kernel=(5, 3), conv_stride=(3, 2), num_feat_extract_layers=2,
                                   num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, mask_time_prob=0.0), audio,
                 [(2, 200), (3, 311), (1, 96)]),
    "vit": (tf.ViTForImageClassification, tf.ViTConfig(**VISION, num_labels=3), image, BATCHES),
    "dinov2": (tf.Dinov2Model, tf.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2,
                                               image_size=16, patch_size=8), image, BATCHES),
    "yolos": (tf.YolosForObjectDetection,
              tf.YolosConfig(**{**VISION, "image_size": [16, 16]}, num_detection_tokens=3, num_labels=2,
                             use_mid_position_embeddings=False), square(16), BATCHES),
    "beit": (tf.BeitForImageClassification, tf.BeitConfig(**VISION, num_labels=3), image, BATCHES),
    "swin": (tf.SwinForImageClassification,
             tf.SwinConfig(image_size=32, patch_size=4, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=2,
                           num_labels=3), image, BATCHES),
    "convnext": (tf.ConvNextForImageClassification,
                 tf.ConvNextConfig(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, num_labels=3, image_size=32), picture,
                 PICTURES),
    "resnet": (tf.ResNetForImageClassification,
               tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=3), picture, PICTURES),
    "regnet": (tf.RegNetForImageClassification,
               tf.RegNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=4, num_labels=3),
               picture, PICTURES),
    "mobilenet_v2": (tf.MobileNetV2ForImageClassification,
                     tf.MobileNetV2Config(image_size=32, depth_multiplier=0.25, num_labels=3), square(32), BATCHES),
    "efficientnet": (tf.EfficientNetForImageClassification,
                     tf.EfficientNetConfig(image_size=32, width_coefficient=0.25, depth_coefficient=0.2,
                                           kernel_sizes=[3, 5], in_channels=[8, 8], out_channels=[8, 12],
                                           strides=[1, 2], num_block_repeats=[1, 1], expand_ratios=[1, 2],
                                           depthwise_padding=[], hidden_dim=320, num_labels=3), square(32), BATCHES),
    "segformer": (tf.SegformerForSemanticSegmentation,
                  tf.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16],
                                     patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
                                     decoder_hidden_size=12, num_labels=3), picture, PICTURES),
    "mobilevit": (tf.MobileViTForImageClassification,
                  tf.MobileViTConfig(image_size=64, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 12, 12, 12, 16],
                                     num_attention_heads=2, num_labels=3), square(64), BATCHES),
    "clip": (tf.CLIPModel,
             tf.CLIPConfig(text_config={**TEXT, "eos_token_id": 49}, vision_config=VISION, projection_dim=12,
                           logit_scale_init_value=0.0),
             text_and_image, [(2, 7, 3), (3, 5, 2), (1, 4, 1)]),
    "siglip": (tf.SiglipModel, tf.SiglipConfig(text_config=TEXT, vision_config=VISION), text_and_image,
               [(2, 40, 3), (3, 40, 2), (1, 40, 1)]),
    "llava": (tf.LlavaForConditionalGeneration,
              tf.LlavaConfig(vision_config=tf.CLIPVisionConfig(**VISION), text_config=tf.LlamaConfig(**DECODER),
                             image_token_id=VOCABULARY - 1, vision_feature_layer=-1), text_about_image,
              [(2, 5), (2, 9), (2, 1)]),
}


def leaves(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def named(prefix, tensors):
    return {f"{prefix}{i}": tensor.contiguous().clone() for i, tensor in enumerate(tensors)}


def make(name, folder):
    model_class, config, make_inputs, shapes = MODELS[name]
    torch.manual_seed(0)
    model = model_class(config).eval()
    exported = None
    for shape in shapes:
        torch.manual_seed(1)
        inputs = make_inputs(model, *shape)
        tensors = named("in", leaves(inputs))
        label = "traced" if exported is None else "x".join(map(str, shape))
        if exported is None:
            exported = DynamoExporter().export(model, {**inputs}, DynamoConfig(dynamic=True))
            exported.save_pretrained(folder)
            flags = {key: value for key, value in inputs.items() if key == "use_cache"}
            model.config.update(flags)
            program = exported.program.module()
        torch.manual_seed(1)
        tensor_inputs = {key: value for key, value in make_inputs(model, *shape).items() if key != "use_cache"}
        try:
            program(**tensor_inputs)
        except (AssertionError, RuntimeError) as error:
            print(f"  {name} {label} is refused: {str(error)[:200]}", flush=True)
            save_file(tensors, os.path.join(folder, f"refused_{label}.safetensors"))
            continue
        torch.manual_seed(1)
        outputs = model(**make_inputs(model, *shape))
        save_file({**tensors, **named("out", leaves(outputs))}, os.path.join(folder, f"io_{label}.safetensors"))


def main():
    for name in sys.argv[2:] or MODELS:
        make(name, os.path.join(sys.argv[1], name))
    mark_current(__file__)


if __name__ == "__main__":
    main()
