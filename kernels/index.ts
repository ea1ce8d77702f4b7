import type { Variant } from './assemble.ts';
import { attention, attentionCombine } from './attention.ts';
import { erased, type Kernel } from './define.ts';
import { embed } from './embed.ts';
import { gatedActivation } from './gated-activation.ts';
import { gatherRows } from './gather-rows.ts';
import { gelu } from './gelu.ts';
import { layerNorm } from './layer-norm.ts';
import { logprobs } from './logprobs.ts';
import { matmul, matmulMatrix, matmulTile, matmulTileInt8, matvec } from './matmul.ts';
import { pool } from './pool.ts';
import { positionEmbed } from './position-embed.ts';
import { normAdd } from './norm-add.ts';
import { rmsNorm } from './rms-norm.ts';
import { ropeKvWrite } from './rope-kv-write.ts';
import { sampleAdjust, samplePick } from './sample.ts';

/** Every built-in kernel. */
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
  logprobs,
].map((kernel) => erased(kernel as unknown as Kernel<Variant, never>));
