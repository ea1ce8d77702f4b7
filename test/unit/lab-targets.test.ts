import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bindUnits,
  canBind,
  overlappingBindings,
  targetsOf,
  type LabKernel,
} from '../../src/engine/graph/bindings.ts';
import { contracts } from '../../kernels/contracts.ts';
import type { PlanContext } from '../../src/engine/execution/plan-context.ts';
import { GraphBuilder } from '../../src/engine/graph/graph-builder.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { tinyModel } from '../support/tiny-model.ts';
import { matchesGlob, resolveTargets } from '../../src/lab/targets.ts';
import { LabError } from '../../src/lab/types.ts';

function graph() {
  const builder = new GraphBuilder({
    layers: 2,
    width: 64,
    heads: 4,
    kvHeads: 2,
    headDim: 16,
    feedForward: 96,
    vocabulary: 300,
    eps: 1e-5,
    embeddingScale: 1,
    ropes: [{ theta: 1e4, rotary: 16, style: 'neox', scale: 1, magnitude: 1 }],
    hasSandwichNorms: false,
    trainedContext: 128,
  });
  builder.embed('embd');
  for (let n = 0; n < 2; n++) {
    builder.layer(n);
    builder.norm('attn.norm', `${n}.norm`);
    builder.qkv([`${n}.q`, `${n}.k`, `${n}.v`]);
    builder.headNorm('q', `${n}.qn`);
    builder.headNorm('k', `${n}.kn`);
    builder.attend({ rope: 0, window: 0, scale: 0.25 });
    builder.projectAdd('attn.o', `${n}.o`, 'context');
    builder.norm('ffn.norm', `${n}.ffn_norm`);
    builder.gateUp([`${n}.gate`, `${n}.up`], 'silu');
    builder.projectAdd('ffn.down', `${n}.down`, 'activated');
  }
  builder.layer(undefined);
  builder.norm('output.norm', 'out_norm', 'hidden', 'last');
  builder.logits('out');
  return builder.build();
}

const kernel = (op: string): LabKernel => {
  const contract = contracts.get(op);
  if (!contract) throw new Error(op);
  return {
    name: op,
    digest: op,
    contract,
    code: '',
    entryPoint: 'main',
    params: 0,
    constants: {},
    grid: () => [1, 1, 1],
  };
};
const unfused = new Map(['add', 'rope', 'kv_write'].map((op) => [op, kernel(op)]));
const codeOf = (work: () => unknown): unknown => {
  try {
    work();
    return undefined;
  } catch (error) {
    return error instanceof LabError ? error.code : error;
  }
};

/** Units that prepare the input of a node or process its result. */
const beside = new Set(['gather', 'sample_adjust', 'logprobs']);

describe('targets', () => {
  const all = targetsOf(graph());

  it('are every node and at least the spans that the lab promises', () => {
    const spans = new Map(all.filter(({ isSpan }) => isSpan).map(({ id, op }) => [id, op]));
    expect(Object.fromEntries(spans)).toMatchObject({
      'layers.1.attn.qkv': 'matmul',
      'layers.1.attn.norm_qkv': 'norm_matmul',
      'layers.1.attn.rope_kv': 'rope_kv_write',
      'layers.1.attn.o_add': 'matmul_add',
      'layers.1.ffn.gate_up_act': 'gated_matmul',
      'layers.1.ffn.norm_gate_up_act': 'norm_gated_matmul',
      'layers.1.ffn.down_add': 'matmul_add',
      norm_logits: 'norm_matmul',
    });
    const ids = all.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(all.filter(({ isSpan }) => !isSpan)).toHaveLength(2 * 17 + 4);
    for (const { op } of all) expect(contracts.has(op), op).toBe(true);
  });

  it('also accept single-token kernels', () => {
    const qkv = all.find(({ id }) => id === 'layers.0.attn.qkv');
    if (!qkv) throw new Error('no qkv');
    expect([canBind('matmul', qkv), canBind('matvec', qkv), canBind('matmul_add', qkv)]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('bound or not, compute every node once, in order', () => {
    const one = graph();
    const whole = one.units.flatMap((unit) => unit.nodes.map(({ id }) => id));
    for (const target of all) {
      const units = bindUnits(one, [{ target: target.id, kernel: kernel(target.op) }], unfused);
      const computed = units.flatMap((unit) => (beside.has(unit.op) ? [] : unit.nodes.map(({ id }) => id)));
      expect(computed, target.id).toEqual(whole);
      expect(units.filter(({ op, id }) => op === 'lab' && id === target.id)).toHaveLength(1);
    }
  });

  it('that share nodes overlap', () => {
    const one = graph();
    const bound = (target: string) => ({ target, kernel: kernel('matmul') });
    const present = [bound('layers.0.attn.qkv'), bound('layers.1.attn.qkv')];
    expect(overlappingBindings(one, present, [bound('layers.1.attn.q')]).map(({ target }) => target)).toEqual(
      ['layers.1.attn.qkv'],
    );
  });
});

/** One layer like Gemma's, and one without rope. */
function sandwich() {
  const builder = new GraphBuilder({ ...graph().shape, hasSandwichNorms: true });
  builder.embed('embd');
  for (const [n, rope] of [0, undefined].entries()) {
    builder.layer(n);
    builder.norm('attn.norm', `${n}.norm`);
    builder.qkv([`${n}.qkv`]);
    builder.attend({ rope, window: 8, scale: 0.25 });
    builder.projectNormAdd('attn.o', `${n}.o`, 'context', { slot: 'attn.post_norm', weight: `${n}.post` });
    builder.norm('ffn.norm', `${n}.ffn_norm`);
    builder.gateUp([`${n}.gate_up`], 'gelu_tanh');
    builder.projectNormAdd('ffn.down', `${n}.down`, 'activated', {
      slot: 'ffn.post_norm',
      weight: `${n}.ffn_post`,
    });
  }
  builder.layer(undefined);
  builder.norm('output.norm', 'out_norm', 'hidden', 'last');
  builder.logits('out');
  return builder.build();
}

describe('targets of a graph with norms that are added', () => {
  const one = sandwich();
  const all = targetsOf(one);

  it('include a span of norm and sum; a layer without rope has no rope node', () => {
    const ops = new Map(all.map(({ id, op }) => [id, op]));
    expect(ops.get('layers.0.attn.post_norm_add')).toBe('norm_add');
    expect(ops.get('layers.0.attn.rope_kv')).toBe('rope_kv_write');
    expect(ops.get('layers.1.attn.kv_write')).toBe('kv_write');
    for (const id of ['layers.1.attn.rope', 'layers.1.attn.rope_kv']) expect(ops.has(id), id).toBe(false);
    for (const { op } of all) expect(contracts.has(op), op).toBe(true);
  });

  it('bound or not, compute every node once, in order', () => {
    const whole = one.units.flatMap((unit) => unit.nodes.map(({ id }) => id));
    for (const target of all) {
      const units = bindUnits(one, [{ target: target.id, kernel: kernel(target.op) }], unfused);
      const computed = units.flatMap((unit) => (beside.has(unit.op) ? [] : unit.nodes.map(({ id }) => id)));
      expect(computed, target.id).toEqual(whole);
    }
  });

  it('run on the sampled rows after the last layer, and on all rows before', () => {
    const context = {
      graph: one,
      memory: { buffers: {}, layout: {} },
      weights: { vectors: { get: () => 'a weight' } },
    } as unknown as PlanContext;
    const rowsOf = (target: string, op: string) =>
      bindUnits(one, [{ target, kernel: kernel(op) }], unfused).flatMap((unit) =>
        unit.op === 'lab' ? unit.site.inputs(context).map(({ rows = 'tokens' }) => rows) : [],
      );
    expect(rowsOf('output.norm', 'rms_norm')).toEqual(['samples']);
    expect(rowsOf('sample', 'sample')).toEqual(['samples']);
    expect(rowsOf('layers.0.attn.norm', 'rms_norm')).toEqual(['tokens']);
  });

  it('parts of one matrix are slices of it', () => {
    const units = bindUnits(one, [{ target: 'layers.0.attn.k', kernel: kernel('matmul') }], unfused);
    const slices = units.flatMap((unit) => {
      if (unit.op === 'matmul') return unit.slice ? [unit.slice] : [];
      return unit.op === 'lab' && unit.site.slice ? [unit.site.slice] : [];
    });
    // Four heads of 16, then two and two.
    expect(slices).toEqual([
      { first: 0, rows: 64 },
      { first: 64, rows: 32 },
      { first: 96, rows: 32 },
    ]);
  });
});

describe('a request to bind', () => {
  const all = targetsOf(graph());
  const ids = (request: { components?: string[]; span?: string }, op: string) =>
    resolveTargets({ kernel: 'k', ...request }, op, all).map(({ id }) => id);

  it('names nodes by globs: * within a segment, ** over dots', () => {
    expect(ids({ components: ['layers.*.attn.norm'] }, 'rms_norm')).toEqual([
      'layers.0.attn.norm',
      'layers.1.attn.norm',
    ]);
    expect(ids({ components: ['**norm'] }, 'rms_norm')).toHaveLength(5);
    expect(ids({ components: ['layers.0.**'] }, 'add')).toEqual([
      'layers.0.attn.o_residual',
      'layers.0.ffn.down_residual',
    ]);
    expect(matchesGlob('a.b', 'axb')).toBe(false);
  });

  it('matches globs like a regular expression, but in bounded time', () => {
    const letters = fc.constantFrom('a', 'b', '.');
    const text = fc.string({ unit: letters, maxLength: 8 });
    const glob = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 6 });
    fc.assert(
      fc.property(glob, text, (pattern, id) => {
        const parts = pattern.split(/(\*+)/).map((part) => {
          if (!part.startsWith('*')) return part.replaceAll('.', '\\.');
          return part.length > 1 ? '.*' : '[^.]*';
        });
        expect(matchesGlob(pattern, id), `${pattern} ${id}`).toBe(new RegExp(`^${parts.join('')}$`).test(id));
      }),
      { numRuns: 2000 },
    );
    // A regular expression took minutes for runs of stars, and blocked the host.
    expect(matchesGlob(`${'*'.repeat(199)}!`, 'layers.29.ffn.norm_gate_up_act')).toBe(false);
    expect(matchesGlob(`${'*n'.repeat(99)}!`, 'n'.repeat(200))).toBe(false);
  });

  it('names spans by id or glob', () => {
    expect(ids({ span: 'layers.1.attn.qkv' }, 'matmul')).toEqual(['layers.1.attn.qkv']);
    expect(ids({ span: 'layers.*.ffn.down_add' }, 'matmul_add')).toHaveLength(2);
    expect(ids({ components: ['layers.*.attn.o_add'] }, 'matvec_add')).toHaveLength(2);
  });

  it('is rejected if nothing matches, nothing is compatible, or targets overlap', () => {
    expect(codeOf(() => ids({ components: ['layers.9.attn.norm'] }, 'rms_norm'))).toBe('unknown_component');
    expect(codeOf(() => ids({ span: 'layers.0.attn.q' }, 'matmul'))).toBe('unknown_component');
    expect(codeOf(() => ids({ components: ['layers.*.attn.q'] }, 'rms_norm'))).toBe('incompatible_component');
    expect(codeOf(() => ids({}, 'rms_norm'))).toBe('unknown_component');
    expect(codeOf(() => ids({ components: ['layers.0.attn.q'], span: 'layers.0.attn.qkv' }, 'matmul'))).toBe(
      'incompatible_component',
    );
  });
});

describe('nodes without a contract', () => {
  const bind = async (bytes: Uint8Array, target: string, op: string) =>
    bindUnits(
      await buildGraph(await openSource(memorySource(bytes))),
      [{ target, kernel: kernel(op) }],
      new Map(),
    );

  it('attention with sinks is listed, and cannot be bound, with the reason', async () => {
    const bytes = tinyModel({ architecture: 'gpt-oss' });
    const shown = targetsOf(await buildGraph(await openSource(memorySource(bytes))));
    expect(shown.find(({ id }) => id === 'layers.0.attn.attend')).toMatchObject({ op: 'attention' });
    await expect(bind(bytes, 'layers.0.attn.attend', 'attention')).rejects.toThrow(/sinks/);
    await expect(bind(bytes, 'layers.0.attn.attend', 'attention_decode')).rejects.toThrow(/sinks/);
  });

  it('rope of queries alone cannot be bound; attention over the keys of another layer can', async () => {
    const bytes = tinyGemma4({});
    await expect(bind(bytes, 'layers.4.attn.rope', 'rope')).rejects.toThrow(/keys of another layer/);
    const units = await bind(bytes, 'layers.4.attn.attend', 'attention');
    const lab = units.find((unit) => unit.op === 'lab');
    const caches = ['first', 'second', 'third'].map((name) => ({
      kind: 'pages',
      k: `${name} k`,
      v: `${name} v`,
    }));
    const memory = { caches, buffers: {}, layout: {}, capacity: { context: 64 } };
    const gemma = await buildGraph(await openSource(memorySource(bytes)));
    const [inputs] = lab?.site.inputs({ graph: gemma, memory } as unknown as PlanContext) ?? [];
    expect(inputs?.buffers).toMatchObject({ k_cache: 'second k', v_cache: 'second v' });
    for (const [id, op] of [
      ['layers.4.input.act', 'gated_activation'],
      ['layers.4.scale', 'add'],
      ['logits.softcap', 'add'],
    ] as const) {
      await expect(bind(bytes, id, op)).rejects.toThrow(/the lab has no op/);
    }
  });
});
