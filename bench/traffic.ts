/**
 * `npm run bench:traffic -- [--lanes 32] [--sites] [--json FILE]`: what the built-in kernels ask of a GPU's memory, at the shapes of
 * real models, from an emulation of a few workgroups; it needs no GPU. For each kernel: how much of the sectors of 32 bytes that a
 * workgroup fetches it needs, and how much of those that the lanes of a subgroup touch with one instruction; conflicts of banks in
 * workgroup memory, barriers and bytes of a workgroup.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type AttentionModel, chooseFlashDecode, chooseWideAttention } from '../kernels/attention-choices.ts';
import { flashDecodeAttention, prefillAttention } from '../kernels/attention.ts';
import { assemble, type Variant } from '../kernels/assemble.ts';
import {
  type AdapterCaps,
  emptyStepDims,
  eraseVariant,
  type Grid,
  type Kernel,
  packParams,
  type StepDims,
} from '../kernels/define.ts';
import { embed } from '../kernels/embed.ts';
import { matmulFamilies, matmulFlags, plainProductParams } from '../kernels/matmul.ts';
import { chooseNormAdd, normAdd } from '../kernels/norm-add.ts';
import { chooseRmsNorm, rmsNorm } from '../kernels/rms-norm.ts';
import { pageTokens } from '../kernels/rope-kv-write.ts';
import { chooseSamplePick, samplePick, sampleWords } from '../kernels/sample.ts';
import { AccessRecorder, type AccessSite, sectorBytes } from '../src/lab/emulator/access-recorder.ts';
import { EmulatedKernel } from '../src/lab/emulator/emulate.ts';
import { nodePlatform } from '../src/platform/node.ts';

const { values } = parseArgs({
  options: {
    lanes: { type: 'string', default: '32' },
    sites: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});
const lanes = Number(values.lanes);
if (![8, 16, 32, 64].includes(lanes)) {
  process.stderr.write(`--lanes: expected 8, 16, 32 or 64, got '${values.lanes}'\n`);
  process.exit(2);
}
// A reader such as `head` may leave early.
process.stdout.on('error', () => process.exit(0));
const caps: AdapterCaps = { subgroupSize: lanes, f16: true, matrix: lanes === 32, software: false };

interface Model extends AttentionModel {
  readonly name: string;
  readonly format: string;
  readonly hidden: number;
  /** Columns of the product that leaves the feed-forward. */
  readonly inner: number;
  readonly rope: 'interleaved' | 'neox';
  readonly qkNorm?: boolean;
  readonly window?: boolean;
  readonly sinks?: boolean;
}

/** Layers of the most frequent size. Experts of gpt-oss have products of the same columns. */
const models: readonly Model[] = [
  {
    name: 'Llama 3.1 8B',
    format: 'q4_k',
    hidden: 4096,
    inner: 14_336,
    heads: 32,
    kvHeads: 8,
    headDim: 128,
    rope: 'interleaved',
  },
  {
    name: 'Qwen3 1.7B',
    format: 'q8_0',
    hidden: 2048,
    inner: 6144,
    heads: 16,
    kvHeads: 8,
    headDim: 128,
    rope: 'neox',
    qkNorm: true,
  },
  {
    name: 'Gemma 4 E2B',
    format: 'q4_0',
    hidden: 1536,
    inner: 6144,
    heads: 8,
    kvHeads: 1,
    headDim: 256,
    rope: 'neox',
    qkNorm: true,
    window: true,
  },
  {
    name: 'gpt-oss 20B',
    format: 'mxfp4',
    hidden: 2880,
    inner: 2880,
    heads: 64,
    kvHeads: 8,
    headDim: 64,
    rope: 'neox',
    window: true,
    sinks: true,
  },
];
const context = 4096;

interface Subject {
  readonly model: string;
  readonly phase: 'decode' | 'prefill';
  readonly what: string;
  readonly kernel: Kernel<Variant, never>;
  readonly variant: Variant;
  readonly params: Readonly<Record<string, number>>;
  readonly dims: Partial<StepDims>;
  /** Bytes of each binding; the contents are zeros unless given. */
  readonly bytes: Readonly<Record<string, number | Uint32Array>>;
}

/** Rows are few: which addresses a workgroup touches does not depend on how many there are. */
function product(model: Model, what: string, columns: number, tokens: number, flags: number): Subject[] {
  const [family] = matmulFamilies(caps);
  const ofRange = tokens === 1 ? 'decode' : 'prompt';
  const option = family
    ?.classes(model.format)
    .flatMap(({ upTo, options }) =>
      upTo >= tokens ? options.filter(({ kernel }) => kernel.rows === ofRange).slice(0, 1) : [],
    )[0];
  if (!option) return [];
  const rows = 256;
  const blocks = columns / 32;
  const params = {
    ...plainProductParams({ rows, blocks }),
    flags,
    parts: columns / 4,
    width: columns,
    eps: 1e-5,
    half: rows / 2,
  };
  return [
    {
      model: model.name,
      phase: tokens === 1 ? 'decode' : 'prefill',
      what,
      kernel: option.kernel,
      variant: option.variant,
      params,
      dims: { tokens, decodeRows: tokens === 1 ? 1 : 0 },
      bytes: {
        quants: rows * blocks * 64,
        scales: rows * blocks * 16,
        vectors: 4 * rows,
        x: 4 * 128 * columns,
        y: 4 * 128 * rows,
        squares: 128 * columns,
        scaled: 4 * 128 * rows,
      },
    },
  ];
}

function attention(model: Model): Subject[] {
  const { headDim, window = false, sinks = false } = model;
  // One key head, of which one workgroup attends.
  const own = { heads: model.heads / model.kvHeads, kvHeads: 1, headDim };
  const pages = context / pageTokens;
  const base = {
    heads: own.heads,
    kv_heads: 1,
    max_pages: pages,
    out_stride: own.heads * headDim,
    scale: 0.1,
    loop_limit: 65_536,
    window: window ? 512 : 0,
  };
  const cacheBytes = pages * pageTokens * headDim * 2;
  const buffers = (rows: number, tile: readonly number[]) => ({
    qkv: 4 * rows * (own.heads + 2) * headDim,
    tiles: Uint32Array.from(tile),
    page_table: Uint32Array.from({ length: pages }, (_, page) => page),
    k_cache: cacheBytes,
    v_cache: cacheBytes,
    out: 4 * rows * own.heads * headDim,
    table: 8 * context * headDim,
    norm_weight: 12 * headDim,
    sinks: 4 * own.heads,
  });
  const last = context - 1;
  const flash = chooseFlashDecode(caps, own, {
    window,
    sinks,
    ...(lanes <= 32 ? { rope: model.rope, qkNorm: model.qkNorm ?? false } : {}),
  });
  const wide = chooseWideAttention(caps, own, { window, sinks });
  const subject = (
    phase: Subject['phase'],
    kernel: unknown,
    variant: Variant,
    params: Subject['params'],
    dims: Partial<StepDims>,
    tile: readonly number[],
    rows: number,
  ): Subject => ({
    model: model.name,
    phase,
    what: `attention, ${context} tokens`,
    kernel: kernel as Kernel<Variant, never>,
    variant,
    params,
    dims,
    bytes: buffers(rows, tile),
  });
  return [
    ...(flash
      ? [
          subject(
            'decode',
            eraseVariant(flashDecodeAttention),
            flash,
            {
              ...base,
              max_splits: 1,
              rotary: headDim,
              eps: 1e-6,
              writes: 1,
              v_norm: 0,
            },
            { tokens: 1, singleTiles: 1 },
            [0, 1, 0, last],
            1,
          ),
        ]
      : []),
    subject(
      'prefill',
      eraseVariant(prefillAttention),
      wide,
      base,
      { tokens: wide.TILE, wideTiles: 1 },
      [0, wide.TILE, 0, 511 - wide.TILE],
      wide.TILE,
    ),
  ];
}

/** Kernels of a token's vectors: embedding, norms and the choice of a token. */
function vectors({ name, format, hidden, sinks = false, qkNorm = false }: Model): Subject[] {
  const row = 4 * hidden;
  const blocks = hidden / 32;
  const subject = (
    what: string,
    kernel: unknown,
    variant: Variant,
    params: Subject['params'],
    bytes: Subject['bytes'],
  ): Subject => ({
    model: name,
    phase: 'decode',
    what,
    kernel: kernel as Kernel<Variant, never>,
    variant,
    params,
    dims: { tokens: 1, samples: 1 },
    bytes,
  });
  const one = { heads: 1, in_stride: hidden, in_offset: 0, out_stride: hidden, out_offset: 0 };
  const vocabulary = 32_768;
  // Greedy, and with all filters.
  const samples = [
    [0, 0],
    [0.8, 0.9],
  ].map(([temperature = 0, topP = 0]) => {
    const words = new Uint32Array(sampleWords);
    words[5] = topP > 0 ? 40 : 0;
    words.set(new Uint32Array(Float32Array.of(temperature, topP).buffer), 6);
    return words;
  });
  return [
    subject(
      'embedding',
      eraseVariant(embed),
      { FORMAT: format, WG: 64, PART: 4 },
      { rows: 256, first_row: 0, blocks, scale: 1, norm: 1 },
      {
        quants: 256 * blocks * 64,
        scales: 256 * blocks * 16,
        token: 64,
        sampled: 64,
        y: row,
        squares: row / 4,
        norm_weight: row,
        scaled: row,
      },
    ),
    // Before routers, and after the blocks of Gemma; the others are part of products.
    ...(sinks
      ? [
          subject(
            'norm',
            eraseVariant(rmsNorm),
            chooseRmsNorm(caps, {}),
            { columns: hidden, ...one, eps: 1e-5 },
            { weight: row, samples: 64, x: row, y: row },
          ),
        ]
      : []),
    ...(qkNorm
      ? [
          subject(
            'norm and sum',
            eraseVariant(normAdd),
            chooseNormAdd(caps, { writesNextNorm: true }),
            { columns: hidden, eps: 1e-5, scale: 1 },
            { weight: row, x: row, y: row, next_weight: row, out: row },
          ),
        ]
      : []),
    ...samples.map((words, n) =>
      subject(
        n === 0 ? 'greedy token' : 'top-k, top-p',
        eraseVariant(samplePick),
        chooseSamplePick(caps),
        { vocabulary, rules: 2, levels: 4 },
        { samples: words, logits: noise(vocabulary), seen: 4 * vocabulary, sampled: 64, results: 64 },
      ),
    ),
  ];
}

/** Logits, as bits: with zeros, all tokens would be equal. */
const noise = (length: number): Uint32Array =>
  new Uint32Array(Float32Array.from({ length }, (_, i) => 8 * Math.sin(i * 12.9898)).buffer);

const { sampled: _, normIn, gated } = matmulFlags;
const subjects = models.flatMap((model) => [
  ...product(model, 'q, k, v', model.hidden, 1, normIn),
  ...product(model, 'gate, up', model.hidden, 1, normIn | gated),
  ...product(model, 'down', model.inner, 1, 0),
  ...product(model, 'gate, up', model.hidden, 512, normIn | gated),
  ...attention(model),
  ...vectors(model),
]);

interface Measured {
  readonly model: string;
  readonly phase: string;
  readonly what: string;
  readonly kernel: string;
  /** Needed sectors over touched ones of all requests to storage. */
  readonly reads: number;
  readonly writes: number;
  readonly bankConflict: number;
  readonly barriers: number;
  readonly workgroups: number;
  /** Bytes that a workgroup needs over those of the sectors that they lie in, when it fetches each once. */
  readonly fetched: number;
  /** Bytes of the sectors of all requests of a workgroup, and of those that it fetches, each once. */
  readonly requestedBytes: number;
  readonly fetchedBytes: number;
  readonly sites: readonly AccessSite[];
}

const wgsl = await nodePlatform().wgsl();

function measure({ model, phase, what, kernel, variant, params, dims, bytes }: Subject): Measured {
  const all: StepDims = {
    ...emptyStepDims,
    sequenceRuns: 1,
    ...dims,
  };
  const emulated = new EmulatedKernel(assemble(wgsl, kernel.source, variant), { isTraced: true });
  const buffers: Record<string, ArrayBufferView> = {
    params: new Uint8Array(packParams(kernel as Kernel, params)),
    step: Uint32Array.of(all.tokens, 0, 0, all.decodeRows),
  };
  for (const [name, given] of Object.entries(bytes)) {
    buffers[name] = typeof given === 'number' ? new Uint32Array(Math.max(4, Math.ceil(given / 4))) : given;
  }
  const [x, y] = (kernel as Kernel).grid(variant, params, all);
  const grid: Grid = [Math.min(x, 2), Math.min(y, 1), 1];
  let recorder: AccessRecorder | undefined;
  emulated.dispatch({
    buffers,
    grid,
    subgroupSize: lanes,
    makeTracer: (tokens, memories, ofWorkgroup) =>
      (recorder = new AccessRecorder(tokens, memories, ofWorkgroup)),
  });
  const sites = recorder?.sites() ?? [];
  const workgroups = grid[0] * grid[1];
  const storage = sites.filter(({ space }) => space === 'storage');
  const efficiency = (list: readonly AccessSite[]) => {
    const touched = list.reduce((sum, { sectors }) => sum + sectors, 0);
    return touched === 0 ? 1 : list.reduce((sum, { neededSectors }) => sum + neededSectors, 0) / touched;
  };
  const fetched = recorder?.fetched() ?? [];
  const neededBytes = fetched.reduce((sum, one) => sum + one.bytes, 0);
  const fetchedBytes = sectorBytes * fetched.reduce((sum, one) => sum + one.sectors, 0);
  return {
    model,
    phase,
    what,
    kernel: kernel.source,
    reads: efficiency(storage.filter(({ writes }) => !writes)),
    writes: efficiency(storage.filter(({ writes }) => writes)),
    bankConflict: Math.max(1, ...sites.map(({ bankConflict }) => bankConflict)),
    barriers: (recorder?.barriers ?? 0) / workgroups,
    workgroups,
    fetched: fetchedBytes === 0 ? 1 : neededBytes / fetchedBytes,
    requestedBytes: (sectorBytes * storage.reduce((sum, { sectors }) => sum + sectors, 0)) / workgroups,
    fetchedBytes: fetchedBytes / workgroups,
    sites,
  };
}

const rows = subjects.map((subject) => {
  const measured = measure(subject);
  const { model, phase, what, kernel, reads, writes, bankConflict, barriers, sites } = measured;
  const { fetched, requestedBytes, fetchedBytes } = measured;
  const kib = (bytes: number) => (bytes / 1024).toFixed(1).padStart(7);
  const percent = (part: number) => `${(100 * part).toFixed(0)} %`;
  process.stdout.write(
    `${model.padEnd(13)} ${phase.padEnd(8)} ${what.padEnd(22)} ${kernel.padEnd(28)} fetches ${percent(fetched).padStart(5)}  reads ${percent(reads).padStart(5)}  writes ${percent(writes).padStart(5)}  ` +
      `banks ${bankConflict}-way  barriers ${String(barriers).padStart(4)}  KiB of a workgroup: ${kib(fetchedBytes)} fetched ${kib(requestedBytes)} requested\n`,
  );
  if (values.sites) {
    for (const {
      line,
      column,
      name,
      space,
      writes: isWrite,
      requests,
      sectors,
      neededSectors,
      bankConflict: ways,
    } of sites) {
      const cost =
        space === 'storage' ? `sectors ${neededSectors} needed, ${sectors} touched` : `${ways}-way`;
      process.stdout.write(
        `    ${String(line).padStart(4)}:${String(column).padEnd(3)} ${isWrite ? 'writes' : 'reads '} ${name.padEnd(14)} ${String(requests).padStart(7)} requests  ${cost}\n`,
      );
    }
  }
  return measured;
});
if (values.json !== undefined) {
  const result = {
    date: new Date().toISOString(),
    lanes,
    rows: rows.map(({ sites: _sites, ...row }) => row),
  };
  writeFileSync(values.json, `${JSON.stringify(result, undefined, 1)}\n`);
}
