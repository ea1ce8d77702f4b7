/**
 * Contracts of the ops that lab kernels can implement: bindings, params and dims, stable across changes of the built-in
 * kernels. All bindings are in group 0; the binding number is the index in the list. Data is row-major, with one row
 * for
 * each token. `uniform` structs contain only 4-byte members.
 */

export type ElementType =
  | 'f32'
  | 'u32'
  /** Two in each 32-bit word, the first in the low half. */
  | 'f16'
  /** Blocks of weights, or their scales; see `formats.ts`. */
  | 'weights';

export interface ContractBinding {
  readonly name: string;
  /** `in` is read only, `out` is fully written, `inout` is read or partly written. */
  readonly role: 'in' | 'out' | 'inout' | 'uniform';
  readonly dtype?: ElementType;
  /** Expressions over dims and params, for documentation: `[tokens, x_stride]`. */
  readonly shape: readonly string[];
  readonly summary: string;
  /** For uniforms: members of the struct, in order. */
  readonly members?: readonly UniformMember[];
}

/**
 * A member of a uniform struct. A member with a neutral value was added later: a kernel whose struct ends before it is
 * correct where the member has that value, and cannot be bound elsewhere.
 */
export type UniformMember = readonly [name: string, type: 'u32' | 'f32', neutral?: number];

export interface ContractDim {
  readonly name: string;
  readonly summary: string;
  /** All values are multiples of it. */
  readonly multipleOf?: number;
}

/** Required precision of a result. `quantised`: activations may be rounded to 8 bits. */
export type Exactness = 'f32' | 'f16' | 'quantised' | 'exact';

export interface Contract {
  readonly op: string;
  readonly summary: string;
  /** `one`: only for steps with a single row; steps with more rows run the built-in kernels. */
  readonly tokens: 'any' | 'one';
  /** Ops of the graph nodes that one dispatch computes, in order. More than one makes it a span. */
  readonly covers: readonly string[];
  readonly dims: readonly ContractDim[];
  readonly bindings: readonly ContractBinding[];
  readonly exactness: Exactness;
  /** Dispatch rule of the stub, as expressions over dims and overrides. */
  readonly dispatch: { readonly x: string; readonly y?: string; readonly z?: string };
  /** FLOPs of one dispatch, as an expression over the dims, like `bytes`. */
  readonly flops: string;
  readonly bytes: string;
}

/** Values of the param `activation`: the activation function of a gate. */
export const activationCodes = { silu: 0, gelu_tanh: 1 } as const;

const input = (name: string, dtype: ElementType, shape: string[], summary: string): ContractBinding => ({
  name,
  role: 'in',
  dtype,
  shape,
  summary,
});
const output = (name: string, dtype: ElementType, shape: string[], summary: string): ContractBinding => ({
  name,
  role: 'out',
  dtype,
  shape,
  summary,
});
const inout = (name: string, dtype: ElementType, shape: string[], summary: string): ContractBinding => ({
  name,
  role: 'inout',
  dtype,
  shape,
  summary,
});
const params = (members: readonly UniformMember[]): ContractBinding => ({
  name: 'params',
  role: 'uniform',
  shape: [],
  summary: 'values that are the same for every step',
  members,
});
const step: ContractBinding = {
  name: 'step',
  role: 'uniform',
  shape: [],
  summary: 'values of this step',
  members: [['tokens', 'u32']],
};

const tokens: ContractDim = { name: 'tokens', summary: 'rows of this step, also in step.tokens' };
const columns = (multipleOf: number): ContractDim => ({
  name: 'columns',
  summary: 'elements of a row',
  multipleOf,
});

/** Record of a token: id (0xffffffff: the token last sampled for its slot), position, slot of its sequence, unused. */
const tokenRecords = input('token', 'u32', ['tokens', '4'], 'id, position, slot, unused');
const pageTable = input('page_table', 'u32', ['slots', 'max_pages'], "indices of a sequence's pages");
const ropeTable = input('table', 'f32', ['positions', 'rotary / 2', '2'], 'cosine and sine');
const cacheShape = ['pages', 'kv_heads', 'page', 'head_dim'];
const headDims: readonly ContractDim[] = [
  tokens,
  { name: 'heads', summary: 'query heads' },
  { name: 'kv_heads', summary: 'key and value heads; heads is a multiple of it' },
  { name: 'head_dim', summary: 'elements of a head', multipleOf: 8 },
];
const qkvShape = ['tokens', '(heads + 2 * kv_heads) * head_dim'];

/** 0: silu(x) = x / (1 + e^-x), 1: GELU (tanh approximation). */
const activationMember: UniformMember = ['activation', 'u32', activationCodes.silu];

/** The stub of a format shows how to read the scales. */
const scalesSummary = 'scales and other data of the blocks, by format; unused by unquantized formats';

interface ProductTraits {
  readonly norm?: boolean;
  readonly gated?: boolean;
  readonly add?: boolean;
}

/** Contract of a matrix product with fused ops. */
function productContract(op: string, isSingleToken: boolean, { norm, gated, add }: ProductTraits): Contract {
  const inner = norm ? 'rms_norm(x)' : 'x';
  const sum = `W ${inner}`;
  const result = gated ? `activation(Wgate ${inner}) * (Wup ${inner})` : `(${sum} + bias) * scale`;
  const weightRows = gated ? '2 * rows' : 'rows';
  const norms = norm ? ['rms_norm'] : [];
  const sums = add ? ['add'] : [];
  return {
    op,
    summary: `y ${add ? '+=' : '='} ${result}${isSingleToken ? ', one token' : ''}${gated ? '; rows of gate, then rows of up' : ''}`,
    tokens: isSingleToken ? 'one' : 'any',
    covers: gated ? [...norms, 'matmul', 'matmul', 'gated_activation'] : [...norms, 'matmul', ...sums],
    dims: [
      tokens,
      { name: 'rows', summary: 'elements of y for each token' },
      { name: 'columns', summary: 'elements of x for each token', multipleOf: 32 },
      { name: 'blocks', summary: 'columns / 32' },
      { name: 'block_bytes', summary: 'average bytes of 32 weights with their scales, by weight format' },
    ],
    bindings: [
      input('quants', 'weights', [weightRows, 'blocks'], 'blocks of 32 weights'),
      input('scales', 'weights', [weightRows, 'blocks'], scalesSummary),
      input('x', 'f32', ['tokens', 'x_stride'], norm ? 'not normalized yet' : 'activations'),
      add
        ? inout(
            'y',
            'f32',
            ['tokens', 'y_stride'],
            'the product is added to `rows` elements from y_offset on',
          )
        : output('y', 'f32', ['tokens', 'y_stride'], '`rows` elements from y_offset on are written'),
      params([
        ['rows', 'u32'],
        ['blocks', 'u32'],
        ['x_stride', 'u32'],
        ['y_stride', 'u32'],
        ['y_offset', 'u32'],
        ['has_bias', 'u32'],
        ['eps', 'f32'],
        gated ? activationMember : ['scale', 'f32', 1],
      ]),
      step,
      input('bias', 'f32', ['rows'], 'added when params.has_bias is 1'),
      ...(norm ? [input('norm_weight', 'f32', ['columns'], 'norm weight')] : []),
    ],
    exactness: 'quantised',
    dispatch: { x: 'ceil(rows / ROWS)', y: 'tokens' },
    flops: `2 * tokens * ${weightRows} * columns`,
    bytes: `${weightRows} * blocks * block_bytes + 4 * tokens * (columns + ${add ? '2 * rows' : 'rows'})`,
  };
}

const productVariants: readonly (readonly [name: string, traits: ProductTraits])[] = [
  ['', {}],
  ['_add', { add: true }],
  ['norm_', { norm: true }],
  ['gated_', { gated: true }],
  ['norm_gated_', { norm: true, gated: true }],
];

const attentionContract = (op: string, isSingleToken: boolean): Contract => ({
  op,
  summary: `softmax(q k * scale) v over the token's sequence up to the token, or over its last window positions${isSingleToken ? ', one token' : ''}`,
  tokens: isSingleToken ? 'one' : 'any',
  covers: ['attention'],
  dims: [...headDims, { name: 'context', summary: 'average number of positions that a token reads' }],
  bindings: [
    input('qkv', 'f32', qkvShape, 'q is rotated; k and v are already in the cache'),
    tokenRecords,
    pageTable,
    input('k_cache', 'f16', cacheShape, 'keys'),
    input('v_cache', 'f16', cacheShape, 'values'),
    output('out', 'f32', ['tokens', 'heads * head_dim'], 'one head after the other'),
    params([
      ['heads', 'u32'],
      ['kv_heads', 'u32'],
      ['head_dim', 'u32'],
      ['max_pages', 'u32'],
      ['page', 'u32'],
      ['scale', 'f32'],
      // Sliding window: number of positions that a token reads, including its own; 0: all.
      ['window', 'u32', 0],
    ]),
    step,
  ],
  exactness: 'f16',
  dispatch: { x: 'heads', y: 'tokens' },
  flops: '4 * tokens * heads * head_dim * context',
  bytes: '4 * tokens * context * kv_heads * head_dim + 8 * tokens * heads * head_dim',
});

const ropeParams = params([
  ['heads', 'u32'],
  ['kv_heads', 'u32'],
  ['head_dim', 'u32'],
  ['rotary', 'u32'],
  ['neox', 'u32'],
  ['max_pages', 'u32'],
  ['page', 'u32'],
]);
const rotaryDim: ContractDim = { name: 'rotary', summary: 'rotated elements of a head', multipleOf: 4 };

/** Contracts of all ops that a kernel can be registered for, by name. */
export const contracts: ReadonlyMap<string, Contract> = new Map(
  [
    {
      op: 'embed',
      summary: 'y[t] = table[id of t] * scale',
      tokens: 'any' as const,
      covers: ['embed'],
      dims: [
        tokens,
        { name: 'vocabulary', summary: 'rows of the table' },
        columns(32),
        { name: 'blocks', summary: 'columns / 32' },
        { name: 'block_bytes', summary: 'average bytes of 32 weights with their scales' },
      ],
      bindings: [
        input('quants', 'weights', ['vocabulary', 'blocks'], 'blocks of 32 weights'),
        input('scales', 'weights', ['vocabulary', 'blocks'], scalesSummary),
        tokenRecords,
        input('sampled', 'u32', ['slots'], 'the token last sampled for each slot'),
        output('y', 'f32', ['tokens', 'columns'], 'the residual stream'),
        params([
          ['blocks', 'u32'],
          ['scale', 'f32'],
        ]),
        step,
      ],
      exactness: 'f32' as const,
      dispatch: { x: 'ceil(columns / (4 * WG))', y: 'tokens' },
      flops: 'tokens * columns',
      bytes: 'tokens * (blocks * block_bytes + 4 * columns)',
    },
    {
      op: 'rms_norm',
      summary: 'y[t] = x[t] / sqrt(mean(x[t]^2) + eps) * norm_weight',
      tokens: 'any' as const,
      covers: ['rms_norm'],
      dims: [tokens, columns(4)],
      bindings: [
        input('x', 'f32', ['tokens', 'columns'], 'rows'),
        input('norm_weight', 'f32', ['columns'], 'weight'),
        output('y', 'f32', ['tokens', 'columns'], 'rows'),
        params([
          ['columns', 'u32'],
          ['eps', 'f32'],
        ]),
        step,
      ],
      exactness: 'f32' as const,
      dispatch: { x: 'tokens' },
      flops: '4 * tokens * columns',
      bytes: '8 * tokens * columns + 4 * columns',
    },
    {
      op: 'norm_add',
      summary: 'y[t] += x[t] / sqrt(mean(x[t]^2) + eps) * norm_weight',
      tokens: 'any' as const,
      covers: ['rms_norm', 'add'],
      dims: [tokens, columns(4)],
      bindings: [
        input('x', 'f32', ['tokens', 'columns'], 'a projection'),
        input('norm_weight', 'f32', ['columns'], 'weight'),
        inout('y', 'f32', ['tokens', 'columns'], 'the residual stream'),
        params([
          ['columns', 'u32'],
          ['eps', 'f32'],
        ]),
        step,
      ],
      exactness: 'f32' as const,
      dispatch: { x: 'tokens' },
      flops: '5 * tokens * columns',
      bytes: '12 * tokens * columns + 4 * columns',
    },
    {
      op: 'head_norm',
      summary: 'RMS norm of each head of q, or of k, in place',
      tokens: 'any' as const,
      covers: ['rms_norm'],
      dims: [
        tokens,
        { name: 'count', summary: 'heads that are normalized' },
        { name: 'head_dim', summary: 'elements of a head', multipleOf: 8 },
      ],
      bindings: [
        inout('qkv', 'f32', ['tokens', 'stride'], '`count` heads from offset on are normalized'),
        input('norm_weight', 'f32', ['head_dim'], 'weight'),
        params([
          ['count', 'u32'],
          ['head_dim', 'u32'],
          ['stride', 'u32'],
          ['offset', 'u32'],
          ['eps', 'f32'],
        ]),
        step,
      ],
      exactness: 'f32' as const,
      dispatch: { x: 'count', y: 'tokens' },
      flops: '4 * tokens * count * head_dim',
      bytes: '8 * tokens * count * head_dim',
    },
    {
      op: 'rope',
      summary: 'rotates the heads of q and k by position, in place',
      tokens: 'any' as const,
      covers: ['rope'],
      dims: [...headDims, rotaryDim],
      bindings: [inout('qkv', 'f32', qkvShape, 'q, k, v'), ropeTable, tokenRecords, ropeParams, step],
      exactness: 'f32' as const,
      dispatch: { x: 'ceil((heads + kv_heads) * rotary / 2 / WG)', y: 'tokens' },
      flops: '3 * tokens * (heads + kv_heads) * rotary',
      bytes: '8 * tokens * (heads + kv_heads) * rotary',
    },
    {
      op: 'kv_write',
      summary: "writes k (rotated) and v to the token's position in the cache as f16",
      tokens: 'any' as const,
      covers: ['kv_write'],
      dims: headDims,
      bindings: [
        input('qkv', 'f32', qkvShape, 'q, k, v'),
        tokenRecords,
        pageTable,
        inout('k_cache', 'f16', cacheShape, 'keys'),
        inout('v_cache', 'f16', cacheShape, 'values'),
        ropeParams,
        step,
      ],
      exactness: 'f16' as const,
      dispatch: { x: 'ceil(kv_heads * head_dim / 2 / WG)', y: 'tokens' },
      flops: '0',
      bytes: '12 * tokens * kv_heads * head_dim',
    },
    {
      op: 'rope_kv_write',
      summary: 'rope and kv_write: rotates q in place, writes k and v to the cache',
      tokens: 'any' as const,
      covers: ['rope', 'kv_write'],
      dims: [...headDims, rotaryDim],
      bindings: [
        inout('qkv', 'f32', qkvShape, 'q is rotated in place; k and v may have any value afterwards'),
        ropeTable,
        tokenRecords,
        pageTable,
        inout('k_cache', 'f16', cacheShape, 'keys'),
        inout('v_cache', 'f16', cacheShape, 'values'),
        ropeParams,
        step,
      ],
      exactness: 'f16' as const,
      dispatch: { x: 'ceil((heads + 2 * kv_heads) * head_dim / 2 / WG)', y: 'tokens' },
      flops: '3 * tokens * (heads + kv_heads) * rotary',
      bytes: '4 * tokens * (2 * heads + 3 * kv_heads) * head_dim',
    },
    attentionContract('attention', false),
    attentionContract('attention_decode', true),
    {
      op: 'add',
      summary: 'y[t] += x[t]: the residual sum',
      tokens: 'any' as const,
      covers: ['add'],
      dims: [tokens, columns(4)],
      bindings: [
        input('x', 'f32', ['tokens', 'columns'], 'the addend'),
        inout('y', 'f32', ['tokens', 'columns'], 'the residual stream'),
        params([['columns', 'u32']]),
        step,
      ],
      exactness: 'f32' as const,
      dispatch: { x: 'ceil(columns / WG)', y: 'tokens' },
      flops: 'tokens * columns',
      bytes: '12 * tokens * columns',
    },
    {
      op: 'gated_activation',
      summary:
        'y[t, c] = activation(gate[t, c]) * up[t, c]; silu, or GELU (tanh approximation) if params.activation is 1',
      tokens: 'any' as const,
      covers: ['gated_activation'],
      dims: [tokens, columns(4)],
      bindings: [
        input('gate_up', 'f32', ['tokens', '2 * columns'], 'a row of gate, then a row of up'),
        output('y', 'f32', ['tokens', 'y_stride'], '`columns` elements of each row are written'),
        params([['columns', 'u32'], ['y_stride', 'u32'], activationMember]),
        step,
      ],
      exactness: 'f32' as const,
      dispatch: { x: 'ceil(columns / WG)', y: 'tokens' },
      flops: '6 * tokens * columns',
      bytes: '12 * tokens * columns',
    },
    {
      op: 'sample',
      summary: 'samples a token from each row of logits; bias, penalties and masks are already applied',
      tokens: 'any' as const,
      covers: ['sample'],
      dims: [tokens, { name: 'vocabulary', summary: 'logits of a row' }],
      bindings: [
        input('samples', 'u32', ['tokens', '12'], 'records, see wgsl/lib/sample_record.wgsl'),
        input('logits', 'f32', ['tokens', 'vocabulary'], 'rows'),
        inout('seen', 'u32', ['slots', 'vocabulary'], 'count of the sampled token, updated with penalties'),
        inout(
          'sampled',
          'u32',
          ['slots'],
          'the sampled token, by slot; any of them, if several rows have one slot',
        ),
        output('results', 'u32', ['tokens'], 'the sampled token'),
        params([['vocabulary', 'u32']]),
        step,
      ],
      exactness: 'exact' as const,
      dispatch: { x: 'tokens' },
      flops: '2 * tokens * vocabulary',
      bytes: '4 * tokens * vocabulary',
    },
    ...productVariants.flatMap(([name, traits]) => {
      const nameOf = (verb: string) => (name.endsWith('_') ? `${name}${verb}` : `${verb}${name}`);
      return [
        productContract(nameOf('matmul'), false, traits),
        productContract(nameOf('matvec'), true, traits),
      ];
    }),
  ].map((contract: Contract) => [contract.op, contract]),
);

/** Packs the values of a uniform binding, padded to 16 bytes. */
export function packUniform(binding: ContractBinding, values: Readonly<Record<string, number>>): ArrayBuffer {
  const members = binding.members ?? [];
  const bytes = new ArrayBuffer(Math.ceil(Math.max(members.length, 1) / 4) * 16);
  const view = new DataView(bytes);
  members.forEach(([name, type], index) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${binding.name}.${name} is missing`);
    if (type === 'f32') view.setFloat32(index * 4, value, true);
    else view.setUint32(index * 4, value, true);
  });
  return bytes;
}

/**
 * Members of `params` that a kernel does not declare although their value is not neutral.
 * @param declaredCount number of members of the kernel's struct
 */
export function undeclaredParams(
  { bindings }: Contract,
  declaredCount: number,
  values: Readonly<Record<string, number>>,
): readonly string[] {
  const members = bindings.find(({ name }) => name === 'params')?.members ?? [];
  return members
    .slice(declaredCount)
    .filter(([name, , neutral]) => neutral !== undefined && values[name] !== neutral)
    .map(([name]) => name);
}
