/** The tasks of lathe-bench: ops of the kernel lab at the shapes of real models. */
import { contracts } from '../../kernels/contracts.ts';
import { averageBlockBytes, weightFormat } from '../../kernels/formats.ts';
import { compileExpression } from '../../src/lab/expression.ts';
import { Random } from '../../src/lab/ops/random.ts';
import type { Dims } from '../../src/lab/types.ts';

/** 1: single ops that read and write little. 2: products, attention, sampling. 3: fused spans and a whole layer. */
export type Level = 1 | 2 | 3;

export interface KernelTask {
  readonly id: string;
  readonly level: Level;
  readonly op: string;
  /** Weight format, for ops that read weights. */
  readonly format?: string;
  /** Where the shape comes from. */
  readonly from: string;
  /** The published size. `context`: positions of the sequence, of which the tokens are the last. */
  readonly dims: Dims;
  /** Dims that hidden sizes change, each with what it stays a multiple of. */
  readonly varies: Readonly<Record<string, number>>;
}

export interface LayerTask {
  readonly id: string;
  readonly level: Level;
  readonly from: string;
  /** Name of a model of `bench/models.ts` with one layer. */
  readonly model: string;
}

const product = { rows: 32, columns: 256 };

export const kernelTasks: readonly KernelTask[] = [
  {
    id: 'norm-decode',
    level: 1,
    op: 'rms_norm',
    from: 'Llama 3.1 8B, decode',
    dims: { tokens: 1, columns: 4096 },
    varies: { columns: 64 },
  },
  {
    id: 'norm-prompt',
    level: 1,
    op: 'rms_norm',
    from: 'Qwen3 1.7B, prompt',
    dims: { tokens: 256, columns: 2048 },
    varies: { tokens: 1, columns: 64 },
  },
  {
    id: 'norm-add',
    level: 1,
    op: 'norm_add',
    from: 'Gemma 4 E2B, prompt',
    dims: { tokens: 64, columns: 1536 },
    varies: { tokens: 1, columns: 64 },
  },
  {
    id: 'head-norm',
    level: 1,
    op: 'head_norm',
    from: 'Qwen3 1.7B, prompt',
    dims: { tokens: 64, count: 16, head_dim: 128 },
    varies: { tokens: 1 },
  },
  {
    id: 'gate',
    level: 1,
    op: 'gated_activation',
    from: 'Llama 3.1 8B, prompt',
    dims: { tokens: 32, columns: 14_336 },
    varies: { tokens: 1, columns: 64 },
  },
  {
    id: 'kv-write',
    level: 1,
    op: 'kv_write',
    from: 'Llama 3.1 8B, prompt',
    dims: { tokens: 64, heads: 32, kv_heads: 8, head_dim: 128, context: 1024 },
    varies: { tokens: 1, context: 1 },
  },
  {
    id: 'rope-kv-write',
    level: 1,
    op: 'rope_kv_write',
    from: 'Llama 3.1 8B, prompt',
    dims: { tokens: 64, heads: 32, kv_heads: 8, head_dim: 128, rotary: 128, context: 1024 },
    varies: { tokens: 1, context: 1 },
  },
  {
    id: 'embed-q8_0',
    level: 1,
    op: 'embed',
    format: 'q8_0',
    from: 'SmolLM2 135M, prompt',
    dims: { tokens: 64, vocabulary: 49_152, columns: 576 },
    varies: { tokens: 1, vocabulary: 64 },
  },
  {
    id: 'matvec-q4_k',
    level: 2,
    op: 'matvec',
    format: 'q4_k',
    from: 'Llama 3.1 8B, output of attention',
    dims: { tokens: 1, rows: 4096, columns: 4096 },
    varies: product,
  },
  {
    id: 'matvec-q8_0',
    level: 2,
    op: 'matvec',
    format: 'q8_0',
    from: 'Qwen3 1.7B, output of attention',
    dims: { tokens: 1, rows: 2048, columns: 2048 },
    varies: product,
  },
  {
    id: 'matvec-q6_k',
    level: 2,
    op: 'matvec',
    format: 'q6_k',
    from: 'Llama 3.1 8B, values',
    dims: { tokens: 1, rows: 1024, columns: 4096 },
    varies: product,
  },
  {
    id: 'matvec-f16',
    level: 2,
    op: 'matvec',
    format: 'f16',
    from: 'Gemma 4 E2B, queries',
    dims: { tokens: 1, rows: 2048, columns: 1536 },
    varies: product,
  },
  {
    id: 'matvec-mxfp4',
    level: 2,
    op: 'matvec',
    format: 'mxfp4',
    from: 'gpt-oss 20B, an expert',
    dims: { tokens: 1, rows: 2880, columns: 2880 },
    varies: { rows: 32, columns: 32 },
  },
  {
    id: 'matmul-q4_0-16',
    level: 2,
    op: 'matmul',
    format: 'q4_0',
    from: 'Gemma 4 E2B, a short prompt',
    dims: { tokens: 16, rows: 2048, columns: 1536 },
    varies: { tokens: 1, ...product },
  },
  {
    id: 'matmul-q8_0-128',
    level: 2,
    op: 'matmul',
    format: 'q8_0',
    from: 'Qwen3 0.6B, a prompt',
    dims: { tokens: 128, rows: 1024, columns: 1024 },
    varies: { tokens: 1, ...product },
  },
  {
    id: 'attention-decode-llama',
    level: 2,
    op: 'attention_decode',
    from: 'Llama 3.1 8B, decode',
    dims: { tokens: 1, heads: 32, kv_heads: 8, head_dim: 128, context: 2048 },
    varies: { context: 1 },
  },
  {
    id: 'attention-decode-gemma',
    level: 2,
    op: 'attention_decode',
    from: 'Gemma 4 E2B, decode',
    dims: { tokens: 1, heads: 8, kv_heads: 1, head_dim: 256, context: 4096 },
    varies: { context: 1 },
  },
  {
    id: 'attention-prompt',
    level: 2,
    op: 'attention',
    from: 'Qwen3 1.7B, prompt',
    dims: { tokens: 32, heads: 16, kv_heads: 8, head_dim: 128, context: 512 },
    varies: { tokens: 1, context: 1 },
  },
  {
    id: 'sample',
    level: 2,
    op: 'sample',
    from: 'Qwen3, decode',
    dims: { tokens: 1, vocabulary: 151_936 },
    varies: { vocabulary: 64 },
  },
  {
    id: 'norm-matvec-q4_k',
    level: 3,
    op: 'norm_matvec',
    format: 'q4_k',
    from: 'Llama 3.1 8B, norm and QKV',
    dims: { tokens: 1, rows: 6144, columns: 4096 },
    varies: product,
  },
  {
    id: 'norm-gated-matvec-q8_0',
    level: 3,
    op: 'norm_gated_matvec',
    format: 'q8_0',
    from: 'Qwen3 1.7B, norm, gate, up and activation',
    dims: { tokens: 1, rows: 6144, columns: 2048 },
    varies: product,
  },
  {
    id: 'matvec-add-q4_0',
    level: 3,
    op: 'matvec_add',
    format: 'q4_0',
    from: 'Gemma 4 E2B, down and residual',
    dims: { tokens: 1, rows: 1536, columns: 6144 },
    varies: product,
  },
  {
    id: 'norm-gated-matmul-q4_0',
    level: 3,
    op: 'norm_gated_matmul',
    format: 'q4_0',
    from: 'Qwen3 0.6B, norm, gate, up and activation of a prompt',
    dims: { tokens: 32, rows: 1536, columns: 1024 },
    varies: { tokens: 1, ...product },
  },
];

export const layerTask: LayerTask = {
  id: 'layer',
  level: 3,
  from: 'one layer of Qwen3 0.6B in Q8_0',
  model: 'qwen3-layer-q8_0',
};

/** Hidden sizes differ from the published one by up to this part. */
const spread = 0.25;

/**
 * The sizes that are timed and scored: as the published one, with the dims that vary changed by up to a quarter.
 * @param count number of sizes
 */
export function hiddenSizes({ id, dims, varies }: KernelTask, seed: number, count: number): Dims[] {
  const random = new Random(seed, `size of ${id}`);
  return Array.from({ length: count }, () =>
    Object.fromEntries(
      Object.entries(dims).map(([name, value]) => {
        const multiple = varies[name];
        if (multiple === undefined) return [name, value];
        const wanted = value * (1 - spread + 2 * spread * random.uniform());
        return [name, Math.max(1, Math.round(wanted / multiple)) * multiple];
      }),
    ),
  );
}

export interface Work {
  readonly flops: number;
  readonly bytes: number;
}

/** What the op must compute and transfer, from its contract. @param dims those of the case */
export function workOf(op: string, dims: Dims, format?: string): Work {
  const contract = contracts.get(op);
  if (!contract) throw new Error(`unknown op '${op}'`);
  const blockBytes = format === undefined ? 0 : averageBlockBytes(weightFormat(format));
  const columns = dims['columns'] ?? 32 * (dims['blocks'] ?? 0);
  const values = { ...dims, columns, blocks: columns / 32, block_bytes: blockBytes };
  const valueOf = (text: string) => compileExpression(text).evaluate(values);
  return { flops: valueOf(contract.flops), bytes: valueOf(contract.bytes) };
}
