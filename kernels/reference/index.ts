/** CPU oracle: reference implementations of all ops, accumulated in float64. */
export { type AttentionShape, attention } from './attention.ts';
export { dequantize, dequantizeRows, type EncodableType, quantize, type WeightType } from './dequantize.ts';
export { type DeltaShape, deltaNet } from './delta-net.ts';
export { embed } from './embed.ts';
export {
  type ExpertActivation,
  expertActivation,
  expertMatmul,
  expertSum,
  route,
  type RouteShape,
} from './experts.ts';
export { type Activation, gatedActivation } from './gated-activation.ts';
export { gatedNorm, sigmoidGate } from './gates.ts';
export { gatherRows } from './gather-rows.ts';
export { gelu } from './gelu.ts';
export { bf16FromNumber, f16FromNumber, numberFromBf16, numberFromF16, roundToF16 } from './half.ts';
export { kvWrite } from './kv-write.ts';
export { layerNorm } from './layer-norm.ts';
export { logprobs } from './logprobs.ts';
export { type MatmulShape, matmul } from './matmul.ts';
export { perLayerGate, perLayerJoin, softcap } from './per-layer.ts';
export { pool } from './pool.ts';
export { rmsNorm } from './rms-norm.ts';
export { applyRope, llama3FreqFactors, type Rope, ropeFrequencies } from './rope.ts';
export {
  filteredDistribution,
  gumbel,
  noiseBits,
  penalizedLogits,
  type SamplingHistory,
  type SamplingRule,
  sampleToken,
} from './sample.ts';
export { shortConv } from './short-conv.ts';
export { argmax, logSumExp, softmax } from './softmax.ts';
export type { Values } from './vectors.ts';
