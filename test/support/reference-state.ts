/** Layers that keep a state, for the reference model: their parts and outputs, from the definitions. */
import { deltaNet, gatedNorm, matmul, shortConv, type Values } from '../../kernels/reference/index.ts';

interface Product {
  readonly weight: Values;
  readonly bias: Values | undefined;
  readonly inputs: number;
  readonly outputs: number;
}

/** Reads tensors of a layer by the names in its file. */
export interface LayerReader {
  has(name: string): boolean;
  vector(name: string): Promise<Values>;
  matrix(name: string): Promise<Product>;
  number(key: string): number;
}

/** State stored for a sequence. */
export interface KeptState {
  past?: Float64Array;
  state?: Float64Array;
}

/** From normed rows to the input of the layer's last product; advances the state. */
export type StateLayer = (x: Float64Array, rows: number, kept: KeptState) => Float64Array;

/** Undefined for a layer with attention. */
export async function readStateLayer(layer: number, read: LayerReader): Promise<StateLayer | undefined> {
  if (read.has(`blk.${layer}.shortconv.in_proj.weight`)) return readGatedConv(`blk.${layer}.shortconv`, read);
  return read.has(`blk.${layer}.ssm_a`) ? readDeltaNet(`blk.${layer}`, read) : undefined;
}

async function readGatedConv(name: string, read: LayerReader): Promise<StateLayer> {
  const input = await read.matrix(`${name}.in_proj`);
  const weight = await read.vector(`${name}.conv.weight`);
  const bias = read.has(`${name}.conv.bias`) ? await read.vector(`${name}.conv.bias`) : undefined;
  const channels = input.outputs / 3;
  const kernel = weight.length / channels;
  return (x, rows, kept) => {
    const all = times(input, x, rows);
    const [b, c, u] = [0, 1, 2].map((part) => columnsOf(all, rows, part * channels, channels)) as [
      Float64Array,
      Float64Array,
      Float64Array,
    ];
    const gated = b.map((value, i) => value * u[i]!);
    const { out, past } = shortConv(
      gated,
      weight,
      { tokens: rows, channels, kernel },
      { bias, ...pastOf(kept) },
    );
    kept.past = past;
    return out.map((value, i) => value * c[i]!);
  };
}

const silu = (x: number) => x / (1 + Math.exp(-x));

async function readDeltaNet(name: string, read: LayerReader): Promise<StateLayer> {
  const [qkv, z, betas, alphas] = (await Promise.all(
    ['attn_qkv', 'attn_gate', 'ssm_beta', 'ssm_alpha'].map((part) => read.matrix(`${name}.${part}`)),
  )) as [Product, Product, Product, Product];
  const conv = await read.vector(`${name}.ssm_conv1d.weight`);
  const [dt, a, norm] = (await Promise.all(
    ['ssm_dt.bias', 'ssm_a', 'ssm_norm.weight'].map((part) => read.vector(`${name}.${part}`)),
  )) as [Values, Values, Values];
  const channels = qkv.outputs;
  const keyHeads = read.number('ssm.group_count');
  const keyDim = read.number('ssm.state_size');
  const valueHeads = dt.length;
  const valueDim = norm.length;
  const keys = keyHeads * keyDim;
  const eps = read.number('attention.layer_norm_rms_epsilon');
  return (x, rows, kept) => {
    const shape = { tokens: rows, channels, kernel: conv.length / channels };
    const convolved = shortConv(times(qkv, x, rows), conv, shape, pastOf(kept));
    kept.past = convolved.past;
    const mixed = convolved.out.map(silu);
    const part = (first: number, count: number) => columnsOf(mixed, rows, first, count);
    const inputs = {
      q: part(0, keys),
      k: part(keys, keys),
      v: part(2 * keys, valueHeads * valueDim),
      beta: times(betas, x, rows),
      alpha: times(alphas, x, rows),
      dt,
      a,
    };
    const sizes = { tokens: rows, keyHeads, valueHeads, keyDim, valueDim };
    const { out, state } = deltaNet(inputs, sizes, kept.state);
    kept.state = state;
    return gatedNorm(out, times(z, x, rows), norm, { rows: rows * valueHeads, cols: valueDim, eps });
  };
}

const pastOf = ({ past }: KeptState) => (past ? { past } : {});

const times = ({ weight, bias, inputs, outputs }: Product, x: Float64Array, tokens: number): Float64Array =>
  matmul(x, weight, { tokens, inputs, outputs }, { bias });

const columnsOf = (all: Float64Array, rows: number, first: number, count: number): Float64Array =>
  Float64Array.from({ length: rows * count }, (_, i) => {
    return all[Math.floor(i / count) * (all.length / rows) + first + (i % count)]!;
  });

/** From each group of `every` rows of a matrix: `rows` rows from `first` on. */
export function rowsOfEach(matrix: Product, first: number, rows: number, every: number): Product {
  const { weight, inputs, outputs } = matrix;
  const taken = Array.from({ length: outputs / every }, (_, n) =>
    Array.from(weight.subarray((n * every + first) * inputs, (n * every + first + rows) * inputs)),
  );
  return { weight: Float64Array.from(taken.flat()), bias: undefined, inputs, outputs: taken.length * rows };
}
