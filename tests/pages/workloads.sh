# OpenAI's gpt-oss-20b, as its config.json says it.
cat >config.json <<'END'
{"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880,
 "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
 "num_local_experts": 32, "num_experts_per_tok": 4, "experts_per_token": 4, "sliding_window": 128,
 "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "vocab_size": 201088, "hidden_act": "silu",
 "swiglu_limit": 7.0, "quantization_config": {"quant_method": "mxfp4"},
 "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
  "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
  "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
  "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
  "sliding_attention", "full_attention", "sliding_attention", "full_attention"]}
END
