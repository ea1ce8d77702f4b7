/** The check of each built-in kernel, by its source. */
import {
  checkCombine,
  checkDecodeAttention,
  checkEncoderAttention,
  checkPrefillAttention,
  checkRopeKvWrite,
} from './attention.ts';
import type { Check } from './check.ts';
import { checkGatedNorm, checkLayerNorm, checkNormAdd, checkPerLayerJoin, checkRmsNorm } from './norms.ts';
import { checkDeltaNet, checkExpertSum, checkRoute, checkSamplePick, checkShortConv } from './others.ts';
import { checkExpertMatmul, checkMatmul } from './products.ts';
import {
  checkEmbed,
  checkGatedActivation,
  checkGatherRows,
  checkGelu,
  checkPerLayerGate,
  checkPool,
  checkPositionEmbed,
  checkScale,
  checkSigmoidGate,
  checkSoftcap,
} from './rows.ts';

/**
 * Sources without a check: `route_groups` orders pairs of tokens and experts, and a wrong order shows in the products;
 * `sample_adjust`, `sampled_logits` and `logprobs` run on request only.
 */
export const checks: Readonly<Record<string, Check>> = {
  'attention_combine.wgsl': checkCombine,
  'attention_decode.wgsl': checkDecodeAttention,
  'attention_encoder.wgsl': checkEncoderAttention,
  'attention_flash_decode.wgsl': checkDecodeAttention,
  'attention_prefill.wgsl': checkPrefillAttention,
  'delta_net.wgsl': checkDeltaNet,
  'embed.wgsl': checkEmbed,
  'expert_matmul.wgsl': checkExpertMatmul,
  'expert_matvec.wgsl': checkExpertMatmul,
  'expert_sum.wgsl': checkExpertSum,
  'expert_tile.wgsl': checkExpertMatmul,
  'gated_activation.wgsl': checkGatedActivation,
  'gated_norm.wgsl': checkGatedNorm,
  'gather_rows.wgsl': checkGatherRows,
  'gelu.wgsl': checkGelu,
  'layer_norm.wgsl': checkLayerNorm,
  'matmul.wgsl': checkMatmul,
  'matmul_matrix.wgsl': checkMatmul,
  'matmul_tile.wgsl': checkMatmul,
  'matmul_tile_int8.wgsl': checkMatmul,
  'matvec.wgsl': checkMatmul,
  'matvec_packed.wgsl': checkMatmul,
  'norm_add.wgsl': checkNormAdd,
  'per_layer_gate.wgsl': checkPerLayerGate,
  'per_layer_join.wgsl': checkPerLayerJoin,
  'pool.wgsl': checkPool,
  'position_embed.wgsl': checkPositionEmbed,
  'rms_norm.wgsl': checkRmsNorm,
  'rope_kv_write.wgsl': checkRopeKvWrite,
  'route.wgsl': checkRoute,
  'sample_pick.wgsl': checkSamplePick,
  'scale.wgsl': checkScale,
  'short_conv.wgsl': checkShortConv,
  'sigmoid_gate.wgsl': checkSigmoidGate,
  'softcap.wgsl': checkSoftcap,
};
