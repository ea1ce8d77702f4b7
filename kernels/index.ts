import type { Variant } from './assemble.ts';
import type { Kernel } from './define.ts';
import { attention, attentionCombine } from './attention.ts';
import { embed } from './embed.ts';
import { gatedActivation } from './gated-activation.ts';
import { matmul } from './matmul.ts';
import { rmsNorm } from './rms-norm.ts';
import { ropeKvWrite } from './rope-kv-write.ts';
import { sampleAdjust, samplePick } from './sample.ts';

/** Every built-in kernel. */
export const kernels: readonly Kernel<Variant, Readonly<Record<string, number>>>[] = [
  embed,
  rmsNorm,
  matmul,
  ropeKvWrite,
  attention,
  attentionCombine,
  gatedActivation,
  sampleAdjust,
  samplePick,
] as unknown as Kernel<Variant, Readonly<Record<string, number>>>[];
