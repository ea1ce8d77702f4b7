import type { Variant } from './assemble.ts';
import { attention, attentionCombine } from './attention.ts';
import { eraseVariant, type Kernel } from './define.ts';
import { deltaNet } from './delta-net.ts';
import { embed } from './embed.ts';
import { expertMatmul, expertMatvec, expertSum, expertTile } from './experts.ts';
import { gatedActivation } from './gated-activation.ts';
import { gatedNorm } from './gated-norm.ts';
import { gatherRows } from './gather-rows.ts';
import { gelu } from './gelu.ts';
import { layerNorm } from './layer-norm.ts';
import { logprobs } from './logprobs.ts';
import { matmul, matmulMatrix, matmulTile, matmulTileInt8, matvec } from './matmul.ts';
import { pool } from './pool.ts';
import { positionEmbed } from './position-embed.ts';
import { normAdd } from './norm-add.ts';
import { perLayerGate, perLayerJoin, scale, softcap } from './per-layer.ts';
import { rmsNorm } from './rms-norm.ts';
import { route, routeGroups } from './route.ts';
import { ropeKvWrite } from './rope-kv-write.ts';
import { sampleAdjust, sampledLogits, samplePick } from './sample.ts';
import { shortConv } from './short-conv.ts';
import { sigmoidGate } from './sigmoid-gate.ts';

/** All built-in kernels. */
export const kernels: readonly Kernel<Variant, never>[] = [
  embed,
  rmsNorm,
  normAdd,
  matmul,
  matvec,
  matmulTile,
  matmulTileInt8,
  matmulMatrix,
  ropeKvWrite,
  attention,
  attentionCombine,
  gatedActivation,
  gatherRows,
  positionEmbed,
  layerNorm,
  gelu,
  pool,
  sampleAdjust,
  samplePick,
  sampledLogits,
  logprobs,
  route,
  routeGroups,
  expertMatmul,
  expertMatvec,
  expertTile,
  expertSum,
  perLayerJoin,
  perLayerGate,
  scale,
  softcap,
  shortConv,
  deltaNet,
  gatedNorm,
  sigmoidGate,
].map((kernel) => eraseVariant(kernel as unknown as Kernel<Variant, never>));
