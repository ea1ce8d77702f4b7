import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { WgslSources } from '../../kernels/assemble.ts';
import { formatNames } from '../../kernels/formats.ts';
import { labOps, type LiveShape, tolerances } from '../../src/lab/ops/index.ts';
import { renderStub, type Stub, stubTargets } from '../../src/lab/stubs.ts';
import type { ParityCase } from '../../src/lab/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { faultsOf, type LabRunner, labRunner } from '../support/lab-runner.ts';
import { everyNth, isSampleFormat, rounds, runsRest, selectCases } from '../support/tier.ts';

let runner: LabRunner;
let wgsl: WgslSources;
beforeAll(async () => {
  runner = await labRunner();
  wgsl = await testPlatform().wgsl();
});

const opOf = (name: string) => {
  const op = labOps.get(name);
  if (!op) throw new Error(`no op ${name}`);
  return op;
};
const readsWeights = (op: string) => opOf(op).contract.bindings.some(({ dtype }) => dtype === 'weights');

/** A small model, with row counts that are not multiples of a workgroup. */
function liveOf(op: string): LiveShape {
  const heads = { heads: 6, kv_heads: 2, head_dim: 64 };
  switch (op) {
    case 'embed':
      return { dims: { vocabulary: 300, columns: 96 }, params: { blocks: 3, scale: 1 } };
    case 'sample':
      return { dims: { vocabulary: 3000 }, params: { vocabulary: 3000 } };
    case 'head_norm':
      return { dims: { count: 2, head_dim: 64 }, params: { stride: 640, offset: 384, eps: 1e-6 } };
    case 'attention':
    case 'attention_decode':
      return { dims: heads, params: { ...heads, max_pages: 8, scale: 0.2, window: 40 } };
    case 'rms_norm':
    case 'norm_add':
    case 'add':
      return { dims: { columns: 96 }, params: { columns: 96, eps: 1e-6 } };
    case 'gated_activation':
      return { dims: { columns: 236 }, params: { columns: 236, y_stride: 256 } };
    default:
      if (!readsWeights(op)) return { dims: heads, params: { ...heads, rotary: 48, neox: 1, max_pages: 8 } };
      return { dims: { rows: 236, columns: 96 }, params: { x_stride: 96, y_stride: 256, eps: 1e-6 } };
  }
}

/** Errors in a stub's results over these cases. */
async function faults(op: string, stub: Stub, cases: readonly ParityCase[]): Promise<string[]> {
  const { contract, oracle } = opOf(op);
  const run = await runner.stub(contract, stub);
  const found: string[] = [];
  for (const one of cases) {
    const expected = oracle(one);
    found.push(
      ...faultsOf(contract, one, expected, await run(one, expected), tolerances[contract.exactness]),
    );
  }
  return found;
}

/** Every op is tested with these weight formats, and some with all: the block decoders are shared. */
const usualFormats = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'];
const allFormats = ['embed', 'matvec', 'norm_gated_matmul'];

for (const [op, lab] of labOps) {
  describe(op, () => {
    const readBy = allFormats.includes(op) ? formatNames : usualFormats;
    const sample = op === 'matmul' ? ['f16', 'q8_0'] : ['q8_0', 'none'];
    const formats = selectCases(readsWeights(op) ? readBy : ['none'], (format) =>
      op === 'matvec' ? isSampleFormat(format) : sample.includes(format),
    );

    it.each(formats)('every stub equals the oracle on every case, %s', async (format) => {
      const cases = lab.cases({ seed: 7, formats: [format], live: [liveOf(op)] });
      for (const target of stubTargets(op, [...runner.gpu.device.features])) {
        expect(
          await faults(op, renderStub(wgsl, op, target, format === 'none' ? undefined : format), cases),
          target,
        ).toEqual([]);
      }
    });

    it.each(formats)("the engine's kernels equal the oracle, %s", async (format) => {
      const { contract } = lab;
      const found: string[] = [];
      let ran = 0;
      for (const one of lab.cases({ seed: 8, formats: [format], live: [liveOf(op)] })) {
        const steps = lab.builtin(one, runner.gpu.caps);
        if (!steps) continue;
        ran += 1;
        const expected = lab.oracle(one);
        const got = await runner.builtin(contract, steps, one, expected);
        found.push(...faultsOf(contract, one, expected, got, tolerances[contract.exactness]));
      }
      expect(found).toEqual([]);
      expect(ran > 0).toBe(!['add', 'rope'].includes(op));
    });

    it.runIf(runsRest || op === 'matmul')(
      'the plain stub equals the oracle for every seed, also in strict mode',
      async () => {
        const stub = renderStub(wgsl, op, 'plain');
        expect(await faults(op, stub, lab.cases({ seed: 99, formats: ['q8_0'], strict: true }))).toEqual([]);
        await fc.assert(
          fc.asyncProperty(fc.integer({ min: 0, max: 0xffffffff }), async (seed) => {
            expect(await faults(op, stub, lab.cases({ seed, formats: ['q8_0'] }))).toEqual([]);
          }),
          { numRuns: rounds(3, 1) },
        );
      },
    );
  });
}

/** A mistake: op, target, correct code of the stub, and the wrong replacement. */
const mistakes: readonly (readonly [
  what: string,
  op: string,
  target: string,
  right: string,
  wrong: string,
])[] = [
  ['f16 activations that overflow', 'matvec', 'f16', 'units[slot] = unit;\n', 'units[slot] = 1.0;\n'],
  [
    'the last block skipped',
    'matmul',
    'plain',
    'quad < params.blocks * 8u',
    'quad < max(params.blocks, 2u) * 8u - 8u',
  ],
  [
    'no block after the 128th',
    'matvec',
    'plain',
    'quad < params.blocks * 8u',
    'quad < min(params.blocks, 128u) * 8u',
  ],
  ['rows as long as the columns', 'matmul', 'plain', 'params.x_stride / 4u', 'params.blocks * 8u'],
  ['no offset', 'matmul_add', 'plain', 'params.y_offset + row', 'row'],
  ['always a bias', 'matvec', 'plain', 'params.has_bias != 0u', 'true'],
  ['never a bias', 'matvec', 'plain', 'params.has_bias != 0u', 'false'],
  ['one scale for two blocks', 'matvec', 'plain', '[block % 2u]', '[0]'],
  ['no scale', 'matvec', 'plain', 'block_scale(block), sum', '1.0, sum'],
  ['written, not added', 'matmul_add', 'plain', 'y[at] += value', 'y[at] = value'],
  ['no eps', 'norm_matvec', 'plain', ' + params.eps', ''],
  ['no norm_weight', 'norm_matmul', 'plain', ' * norm_weight[quad]', ''],
  ['gate and up exchanged', 'gated_matmul', 'plain', 'activate(sum) * up_sum', 'activate(up_sum) * sum'],
  ['silu alone', 'norm_gated_matvec', 'plain', 'params.activation == 1u', 'false'],
  ['silu alone', 'gated_activation', 'plain', 'params.activation == 1u', 'false'],
  ['results not scaled', 'matvec', 'plain', 'value *= params.scale;', ''],
  [
    'the sum scaled together with the addend',
    'matmul_add',
    'plain',
    'y[at] += value',
    'y[at] += value * params.scale',
  ],
  ['written, not added', 'norm_add', 'plain', 'y[start + c] += ', 'y[start + c] = '],
  ['no eps', 'rms_norm', 'plain', ' + params.eps', ''],
  [
    'f16 sums',
    'rms_norm',
    'plain',
    'fma(x[start + c], x[start + c], squares)',
    'min(65504.0, squares + x[start + c] * x[start + c])',
  ],
  ['heads without an offset', 'head_norm', 'plain', 'params.offset + ', ''],
  [
    'no room between rows',
    'gated_activation',
    'plain',
    'params.y_stride + column',
    'params.columns + column',
  ],
  ['the other style of pairs', 'rope', 'plain', 'params.neox != 0u', 'params.neox == 0u'],
  ['the whole head turned', 'rope', 'plain', 'params.rotary / 2u', 'params.head_dim / 2u'],
  [
    'pages in a row',
    'kv_write',
    'plain',
    'page_table[token[t].z * params.max_pages + position / params.page]',
    '(position / params.page)',
  ],
  ['slots taken for rows', 'kv_write', 'plain', 'token[t].z', 't'],
  ['keys not rotated', 'rope_kv_write', 'plain', 'element >= params.rotary', 'true'],
  ['no greatest score', 'attention', 'plain', 'max(greatest, workgroup_max(score, local, count))', '0.0'],
  ['no window', 'attention', 'plain', 'params.window == 0u || ', 'true || '],
  ['no window', 'attention_decode', 'plain', 'params.window == 0u || ', 'true || '],
  [
    'a window of one too many',
    'attention',
    'plain',
    'position + 1u - window',
    'max(position, window) - window',
  ],
  [
    'a scale of its own',
    'attention',
    'plain',
    'score *= params.scale',
    'score *= inverseSqrt(f32(params.head_dim))',
  ],
  ['one position too many', 'attention', 'plain', 'position + 1u - first', 'position + 2u - first'],
  [
    'a key head for each head',
    'attention_decode',
    'plain',
    'head / (params.heads / params.kv_heads)',
    'head % params.kv_heads',
  ],
  ['the first page alone', 'attention_decode', 'plain', 'position / params.page]', '0u]'],
  [
    'scores in halves',
    'attention',
    'f16',
    'dot(qkv[query + quad], key_quad(row, quad))',
    'f32(dot(vec4<f16>(qkv[query + quad]), k_cache[row * quads + quad]))',
  ],
  ['id taken for a token', 'embed', 'plain', 'id == LAST_DRAWN', 'false'],
  [
    'the highest of equal tokens',
    'sample',
    'plain',
    'best_tokens[i] < best_token',
    'best_tokens[i] > best_token',
  ],
  ['no top-k', 'sample', 'plain', 'sample.top_k > 0u', 'false'],
  ['no top-p', 'sample', 'plain', 'sample.top_p < 1.0', 'false'],
  ['no min-p', 'sample', 'plain', 'sample.min_p > 0.0', 'false'],
  ['no temperature', 'sample', 'plain', '1.0 / sample.temperature', '1.0'],
  ['always counted', 'sample', 'plain', '(sample.flags & HAS_PENALTIES) != 0u', 'true'],
];

describe('the cases detect mistakes', () => {
  it.each(everyNth(mistakes, 2))('%s: %s', async (_what, op, target, right, wrong) => {
    const stub = renderStub(wgsl, op, target);
    if (!stubTargets(op, [...runner.gpu.device.features]).some((one) => one === target)) return;
    expect(stub.source).toContain(right);
    const source = stub.source.replaceAll(right, wrong);
    for (const seed of [1, 2, 3]) {
      expect(await faults(op, { ...stub, source }, opOf(op).cases({ seed, formats: ['q8_0'] }))).not.toEqual(
        [],
      );
    }
  });
});
