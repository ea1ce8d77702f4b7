/** Operation and byte counts of graph units, independent of the kernels that compute them. */
import { blockColumns, quantSizeBytes, scaleSizeBytes, weightFormats } from '../../../kernels/formats.ts';
import type { ModelFile } from '../formats/model-file.ts';
import { columnsOf, rowsOf } from '../formats/rows.ts';
import { type Graph, layerShape } from './graph.ts';

type Unit = Graph['units'][number];
type Tensors = ModelFile['tensors'];

/** The part of a step that belongs to one sequence. */
export interface StepShape {
  readonly tokens: number;
  /** Position of the first token. */
  readonly position: number;
  readonly samples: number;
}

/** Lower bounds for a unit, independent of the kernel: each byte counts once for each step. */
export interface UnitCost {
  readonly flops: number;
  readonly weightBytes: number;
  readonly cacheBytes: number;
  readonly activationBytes: number;
}

interface Matrix {
  readonly rows: number;
  readonly columns: number;
  /** Bytes in the GPU layout. */
  readonly bytes: number;
}

const f32Bytes = 4; // activations are f32
const f16Bytes = 2; // the KV cache is f16

/** Flops (a multiply-add counts as two) and bytes of one unit in one step. */
export function estimateUnitCost(unit: Unit, { shape }: Graph, tensors: Tensors, step: StepShape): UnitCost {
  const { width, vocabulary, experts, layerInput = 0, layers } = shape;
  const layer = layerShape(shape, unit.nodes[0]?.layer);
  const { heads, kvHeads, headDim, feedForward } = layer;
  const { tokens, position, samples } = step;
  const cost = (flops: number, values: number, more: Partial<UnitCost> = {}): UnitCost => ({
    flops,
    weightBytes: 0,
    cacheBytes: 0,
    activationBytes: values * f32Bytes,
    ...more,
  });
  switch (unit.op) {
    case 'position_embed':
      return cost(tokens * width, 3 * tokens * width);
    case 'layer_norm':
      return cost(7 * tokens * width, 2 * tokens * width, { weightBytes: 2 * width * f32Bytes });
    case 'gelu':
      return cost(12 * tokens * feedForward, 2 * tokens * feedForward);
    case 'pool':
      return cost(tokens * width, (tokens + samples) * width);
    case 'embed': {
      const { rows, bytes } = matrixOf(tensors, unit.weight);
      return cost(0, tokens * width, { weightBytes: (tokens * bytes) / rows });
    }
    case 'matmul': {
      const matrices = unit.weights.map((name) => matrixOf(tensors, name));
      const count = unit.sampled ? samples : tokens;
      const rows = sum(matrices.map((matrix) => matrix.rows));
      const columns = matrices[0]?.columns ?? 0;
      // A residual is read before it is written.
      const values = count * (columns + rows * (unit.add ? 2 : 1));
      const weightBytes = sum(matrices.map((matrix) => matrix.bytes));
      return cost(count === 0 ? 0 : 2 * count * rows * columns, values, {
        weightBytes: count === 0 ? 0 : weightBytes,
      });
    }
    case 'rms_norm': {
      const count = unit.sampled ? samples : tokens;
      return cost(4 * count * width, 2 * count * width, { weightBytes: width * f32Bytes });
    }
    case 'head_norm': {
      const values = tokens * unit.heads * headDim;
      return cost(4 * values, 2 * values, { weightBytes: headDim * f32Bytes });
    }
    case 'rope_kv_write': {
      const rotated = tokens * (heads + kvHeads) * headDim;
      const written = tokens * 2 * kvHeads * headDim;
      return cost(3 * rotated, 2 * rotated, { cacheBytes: written * f16Bytes });
    }
    case 'norm_add':
      return cost(5 * tokens * width, 3 * tokens * width, { weightBytes: width * f32Bytes });
    case 'attention': {
      // Token i attends to position + i + 1 keys, or to a window; at best, the cache is read once for each tile.
      const window = unit.window || Number.POSITIVE_INFINITY;
      const keys = tokens * Math.min(position + (tokens + 1) / 2, window);
      return cost(4 * heads * headDim * keys, 2 * tokens * heads * headDim, {
        cacheBytes: Math.min(position + tokens, window + tokens - 1) * 2 * kvHeads * headDim * f16Bytes,
      });
    }
    case 'gated_activation':
      return cost(5 * tokens * feedForward, 3 * tokens * feedForward);
    case 'sample':
      return cost(samples * vocabulary, samples * vocabulary);
    case 'softcap':
      return cost(8 * samples * vocabulary, 2 * samples * vocabulary);
    case 'short_conv': {
      const values = tokens * unit.channels;
      const inputs = unit.mode === 'gated' ? 3 : 1;
      return cost(values * (2 * unit.kernel + inputs), values * (inputs + 1), {
        weightBytes: unit.channels * unit.kernel * f32Bytes,
        cacheBytes: 2 * unit.channels * (unit.kernel - 1) * f32Bytes,
      });
    }
    case 'delta_net': {
      const { keyHeads, valueHeads, keyDim, valueDim } = unit;
      // The state decays, is read twice and written once for every token; it is loaded and stored once for each step.
      const state = valueHeads * keyDim * valueDim;
      const values = 2 * keyHeads * keyDim + 2 * valueHeads * valueDim;
      return cost(tokens * 7 * state, tokens * values, { cacheBytes: 2 * state * f32Bytes });
    }
    case 'gated_norm':
    case 'sigmoid_gate':
      return cost(8 * tokens * layer.context, 3 * tokens * layer.context);
    case 'route':
      return cost(5 * tokens * (experts?.count ?? 0), tokens * (experts?.count ?? 0));
    case 'expert_matmul': {
      const { used = 0, count = 1 } = experts ?? {};
      const { rows, columns, bytes } = matrixOf(tensors, unit.weight);
      const rowsPerExpert = rows / count;
      // Expected number of distinct experts when tokens choose independently.
      const expertsRead = count * (1 - (1 - used / count) ** tokens);
      return cost(2 * tokens * used * rowsPerExpert * columns, tokens * used * (rowsPerExpert + columns), {
        weightBytes: (bytes / count) * expertsRead,
      });
    }
    case 'expert_sum':
      return cost(2 * tokens * (experts?.used ?? 0) * width, tokens * ((experts?.used ?? 0) + 2) * width);
    case 'per_layer_join': {
      const values = tokens * layers * layerInput;
      const { rows, bytes } = matrixOf(tensors, unit.rows);
      return cost(6 * values, 2 * values, { weightBytes: (tokens * bytes) / rows });
    }
    case 'per_layer_gate':
      return cost(10 * tokens * layerInput, 3 * tokens * layerInput);
    case 'scale':
      return cost(tokens * width, 2 * tokens * width);
  }
}

function matrixOf(tensors: Tensors, name: string): Matrix {
  const tensor = tensors.get(name);
  if (!tensor) throw new Error(`tensor ${name} is not in the file`);
  const [rows, columns] = [rowsOf(tensor), columnsOf(tensor)];
  const format = weightFormats[tensor.type];
  const extent = { rows, blocks: Math.ceil(columns / blockColumns) };
  return { rows, columns, bytes: quantSizeBytes(format, extent) + scaleSizeBytes(format, extent) };
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
