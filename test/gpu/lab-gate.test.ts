/** The stages of the gate on this machine's adapter, in this process: no kernel here hangs. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { WgslSources } from '../../kernels/assemble.ts';
import { openGateDevice } from '../../src/lab/gate/open-gate-device.ts';
import type { GateJob } from '../../src/lab/gate/protocol.ts';
import type { GateDevice } from '../../src/lab/gate/references.ts';
import { runGate } from '../../src/lab/gate/run-gate.ts';
import { labOps } from '../../src/lab/ops/index.ts';
import { widenLoads } from '../../src/lab-tool/search/vector-loads.ts';
import { renderStub, stubTargets } from '../../src/lab/stubs.ts';
import type { KernelRegistration, KernelRegistrationReport, ParityCase, Stage } from '../../src/lab/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { honest } from '../support/lab-tricks.ts';
import { everyNth, runsRest } from '../support/tier.ts';

let bench: GateDevice;
let wgsl: WgslSources;
beforeAll(async () => {
  bench = await openGateDevice(undefined);
  wgsl = await testPlatform().wgsl();
});

const noProgress = { begin() {}, end() {}, phase() {} };
const gate = async (registration: KernelRegistration, more: Partial<GateJob> = {}) =>
  await runGate(
    bench,
    {
      registration,
      mode: 'standard',
      toleranceScale: 1,
      seed: 7,
      formats: ['q8_0'],
      live: { byOp: {}, captured: {} },
      ...more,
    },
    noProgress,
  );
const [rmsNorm, matmul] = honest as [KernelRegistration, KernelRegistration];
const codes = ({ stages }: KernelRegistrationReport) =>
  stages.flatMap(({ findings }) =>
    findings.filter(({ severity }) => severity !== 'info').map(({ code }) => code),
  );

describe('stubs are accepted unchanged', () => {
  for (const op of everyNth([...labOps.keys()], 5)) {
    it(op, async () => {
      for (const target of stubTargets(op, [...bench.gpu.device.features])) {
        const { source, dispatch, requires } = renderStub(wgsl, op, target, 'q8_0');
        const report = await gate({ name: `stub.${op}`, op, source, dispatch, requires });
        expect(codes(report), `${op} ${target}: ${JSON.stringify(report.stages.at(-1))}`).toEqual([]);
        expect(report).toMatchObject({ accepted: true, seed: 7, kernel: `stub.${op}` });
        expect(report.parity?.length).toBeGreaterThan(2);
        expect(report.parity?.every(({ ok }) => ok)).toBe(true);
      }
    });
  }
});

describe('stubs with vector loads, as a search proposes them, are accepted', () => {
  it.each(everyNth(['rms_norm', 'norm_add'], 2))('%s', async (op) => {
    const { source, dispatch } = renderStub(wgsl, op, 'plain');
    const widened = widenLoads(source) ?? '';
    expect(widened).toContain('vec4<f32>');
    const report = await gate({ name: `stub.${op}`, op, source: widened, dispatch });
    expect(codes(report), JSON.stringify(report.stages.at(-1))).toEqual([]);
  });
});

describe('a kernel that is correct here, on other adapters', () => {
  const normalize = (main: string, declarations = ''): KernelRegistration => ({
    name: 'norm',
    op: 'rms_norm',
    dispatch: { x: 'ceil(tokens / 4)' },
    requires: ['subgroups'],
    source: `enable subgroups;
struct Params { columns: u32, eps: f32 }
struct Step { tokens: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;
${declarations}
${main}`,
  });
  /** Each group of \`lanes\` invocations, which must be a subgroup, normalizes a row. */
  const rows = (lanes: number, last = '') =>
    normalize(
      `@compute @workgroup_size(${4 * lanes})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let token = group.x * 4u + local / ${lanes}u;
  let start = min(token, step.tokens - 1u) * params.columns;
  var squares = 0.0;
  for (var c = local % ${lanes}u; c < params.columns; c += ${lanes}u) {
    squares = fma(x[start + c], x[start + c], squares);
  }
  let scale = inverseSqrt(subgroupAdd(squares) / f32(params.columns) + params.eps);
  ${last}
  if (token < step.tokens) {
    for (var c = local % ${lanes}u; c < params.columns; c += ${lanes}u) {
      y[start + c] = x[start + c] * scale * norm_weight[c];
    }
  }
}`,
      'var<workgroup> newest: u32;',
    );
  const findingsOf = (report: KernelRegistrationReport, code: string) =>
    report.stages.flatMap(({ findings }) => findings.filter((finding) => finding.code === code));

  it('warns that it assumes this size of subgroups, and with which sizes it is wrong', async () => {
    const own = bench.gpu.caps.subgroupSize ?? 0;
    const report = await gate(rows(own));
    expect(report.accepted).toBe(true);
    const [finding, ...others] = findingsOf(report, 'wrong_in_other_subgroups');
    expect(others).toEqual([]);
    expect(finding?.severity).toBe('warning');
    const wrong = [4, 8, 16, 32, 64].filter((size) => size !== own);
    expect(finding?.message).toContain(
      `wrong on adapters with subgroups of ${wrong.slice(0, -1).join(', ')} and ${wrong.at(-1)}, correct with ${own} (emulated)`,
    );
    expect(finding?.message).toMatch(/y\[\d+\] is \S+ instead of \S+ \(NMSE/);
  });

  it('warns of a race, with its place', async () => {
    const report = await gate(rows(bench.gpu.caps.subgroupSize ?? 0, 'if (local < 2u) { newest = token; }'));
    expect(report.accepted).toBe(true);
    const [finding] = findingsOf(report, 'race');
    expect(finding).toMatchObject({ severity: 'warning', line: 19, column: 21 });
    expect(finding?.message).toContain('one invocation writes here what another writes at 19:21');
  });

  it('says what was not checked', async () => {
    const registration = rows(bench.gpu.caps.subgroupSize ?? 0);
    const endless = 'for (var n = 0u; n < 9000u; n++) { if (x[0] == 1e38) { newest = n; } }';
    const report = await gate({
      ...registration,
      source: registration.source.replace('if (token', `${endless} if (token`),
    });
    expect(report.accepted).toBe(true);
    const [finding] = findingsOf(report, 'not_emulated');
    // The source enables subgroups, so the kernel may be wrong elsewhere.
    expect(finding).toMatchObject({ severity: 'warning' });
    expect(finding?.message).toContain('nor for subgroups of other sizes');
  });
});

describe('a report', () => {
  it('has error measures for every case, also of the built-in kernel', async () => {
    const report = await gate(rmsNorm);
    expect(report.stages.map(({ stage }) => stage)).toEqual([
      'parse',
      'interface',
      'safety',
      'pipeline',
      'parity',
    ]);
    expect(report.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    for (const verdict of report.parity ?? []) {
      // The elements of a row of one value have the same rounding error, so that it has no mean to be small in.
      const limit = verdict.case.startsWith('extreme') ? 1e-9 : 1e-11;
      expect(verdict.nmse).toBeLessThan(limit);
      expect(verdict.builtin?.nmse).toBeLessThan(limit);
      expect(verdict.matched_ratio).toBe(1);
      expect(verdict.worst.output).toBe('y');
    }
    const kinds = new Set(report.parity?.map((verdict) => verdict.case.split(' ')[0]));
    expect(kinds).toEqual(new Set(['random', 'ragged', 'extreme', 'one_row']));
  });

  it('is the same for the same seed; another seed gives different inputs', async () => {
    const first = await gate(matmul);
    const again = await gate(matmul);
    const other = await gate(matmul, { seed: 8 });
    expect(again.parity).toEqual(first.parity);
    expect(other.parity).not.toEqual(first.parity);
  });

  it('includes live shapes and captured inputs', async () => {
    const captured = labOps.get('rms_norm')?.cases({ seed: 3, formats: [] }).slice(0, 1) ?? [];
    const renamed = captured.map((one) => ({ ...one, name: `captured ${one.name}` }));
    const live = {
      byOp: { rms_norm: [{ dims: { tokens: 1, columns: 288 }, params: { columns: 288, eps: 1e-5 } }] },
      captured: { rms_norm: renamed },
    };
    const names = (await gate(rmsNorm, { live })).parity?.map((verdict) => verdict.case) ?? [];
    expect(names.some((name) => name.startsWith('live ') && name.includes('288'))).toBe(true);
    expect(names.at(-1)).toMatch(/^captured /);
  });

  it('excludes captured inputs with weight formats that the kernel does not read', async () => {
    const captured = ['q8_0', 'f32'].map((format) => {
      const [one] = labOps.get('matmul')?.cases({ seed: 3, formats: [format] }) ?? [];
      return { ...(one as ParityCase), name: `captured ${format}` };
    });
    const report = await gate(matmul, { live: { byOp: {}, captured: { matmul: captured } } });
    expect(codes(report)).toEqual([]);
    const names = report.parity?.map((verdict) => verdict.case) ?? [];
    expect(names.filter((name) => name.startsWith('captured'))).toEqual(['captured f32']);
  });

  it('ends with the first failed stage (safety runs even if interface fails) and keeps all locations', async () => {
    const twoErrors = rmsNorm.source.replace('var squares = 0.0;', 'var squares = 0;');
    const parsed = await gate({ ...rmsNorm, source: twoErrors });
    expect(parsed).toMatchObject({ accepted: false, stages: [{ stage: 'parse', ok: false }] });
    const line = rmsNorm.source.split('\n').findIndex((text) => text.includes('squares += value')) + 1;
    expect(parsed.stages[0]?.findings).toContainEqual(expect.objectContaining({ line }));

    const access = rmsNorm.source.replace('var<storage, read_write> y', 'var<storage, read> y');
    const stages: Stage[] = (await gate({ ...rmsNorm, source: access.replace(/y\[start.*;/, '') }))
      .stages as Stage[];
    expect(stages.map(({ stage, ok }) => [stage, ok])).toEqual([
      ['parse', true],
      ['interface', false],
      ['safety', true],
    ]);
  });

  it('has the location of an out-of-bounds access', async () => {
    const source = rmsNorm.source.replace(
      'y[start + c] = result;',
      'y[start + c] = result; y[start + c + 1000000u] = result;',
    );
    const report = await gate({ ...rmsNorm, source });
    const found = report.stages.at(-1)?.findings.find(({ code }) => code === 'out_of_bounds');
    const line = source.split('\n').findIndex((text) => text.includes('1000000u')) + 1;
    const column = (source.split('\n')[line - 1] as string).indexOf('y[start + c + 1000000u]') + 1;
    expect(found).toMatchObject({
      severity: 'error',
      line,
      column,
      length: 'y[start + c + 1000000u]'.length,
    });
    expect(found?.message).toContain('y has no element');
  });
});

it('fails if there are no cases', async () => {
  await expect(gate({ ...matmul, dtypes: [] })).rejects.toThrow('no cases for matmul');
});

describe('systematic errors', () => {
  it('of an f32 op, within the tolerance of its error', async () => {
    const { source, dispatch } = renderStub(wgsl, 'rms_norm', 'plain');
    const biased = source.replace('* norm_weight[', '* 1.0002 * norm_weight[');
    expect(biased).not.toBe(source);
    const report = await gate({ name: 'biased', op: 'rms_norm', source: biased, dispatch });
    const errors = report.stages.at(-1)?.findings.filter(({ severity }) => severity === 'error');
    expect(errors).toMatchObject([
      { code: 'systematic_error', message: expect.stringMatching(/too large by the factor 0\.0002/) },
    ]);
    expect(report.accepted).toBe(false);
  });

  // Found by the case in which rounding activations is exact, before signs are added up.
  it.each(['write_result(token, row, sum * 1.02);', 'write_result(token, row, sum * 0.99);'])(
    'of a quantized product, within the tolerance of its error: %s',
    async (changed) => {
      const { source, dispatch } = renderStub(wgsl, 'matmul', 'plain', 'q8_0');
      const call = 'write_result(token, row, sum);';
      expect(source).toContain(call);
      const report = await gate({
        name: 'biased',
        op: 'matmul',
        source: source.replace(call, changed),
        dispatch,
      });
      expect(codes(report)).toEqual(['wrong_result']);
      expect(report.accepted).toBe(false);
    },
  );
});

describe('the parity mode', () => {
  const coarse = {
    ...matmul,
    source: matmul.source.replace('= sum;', '= sum * select(0.9998, 1.0002, (row & 1u) == 0u);'),
  };

  it('off: compiled, not compared', async () => {
    const report = await gate(coarse, { mode: 'off' });
    expect(report).toMatchObject({ accepted: true, unverified: true });
    expect(report.stages.map(({ stage }) => stage)).toEqual(['parse', 'interface', 'safety', 'pipeline']);
    expect(report.parity).toBeUndefined();
  });

  it.runIf(runsRest)('strict: 0.1 times the tolerance, and more cases', async () => {
    const standard = await gate(coarse);
    expect(standard).toMatchObject({ accepted: true, tolerance: { nmse: 1e-7, scale: 1, mode: 'standard' } });
    const strict = await gate(coarse, { mode: 'strict' });
    expect(strict).toMatchObject({ accepted: false, tolerance: { scale: 1, mode: 'strict' } });
    expect(strict.tolerance?.nmse).toBeCloseTo(1e-8, 12);
    expect(strict.parity?.length).toBeGreaterThan(standard.parity?.length ?? 0);
    expect(await gate(matmul, { mode: 'strict' })).toMatchObject({ accepted: true });
  });

  it('a scale multiplies the tolerances and is reported', async () => {
    const tight = await gate(coarse, { toleranceScale: 0.1 });
    expect(tight).toMatchObject({ accepted: false, tolerance: { scale: 0.1 } });
  });
});

describe('tunables', () => {
  const tunable: KernelRegistration = {
    ...matmul,
    source: matmul.source.replace(
      '@compute @workgroup_size(64)',
      'override WG: u32 = 64;\n@compute @workgroup_size(WG)',
    ),
    dispatch: { x: 'ceil(rows / WG)', y: 'tokens' },
    tunables: { WG: [8, 32, 64] },
  };

  it('are all tried, and the fastest is kept for each live shape if it is faster than the default', async () => {
    const shape = (rows: number) => ({
      dims: { tokens: 1, rows, columns: 64, blocks: 2, block_bytes: 128 },
      params: { rows, blocks: 2, x_stride: 64, y_stride: rows, y_offset: 0, has_bias: 0, eps: 0 },
      format: 'f32',
    });
    const report = await gate(tunable, { live: { byOp: { matmul: [shape(96), shape(160)] }, captured: {} } });
    expect(codes(report)).toEqual([]);
    expect(report.accepted).toBe(true);
    expect(report.tuning?.length).toBeGreaterThanOrEqual(2);
    for (const { best, best_ms, tried, builtin_ms, default: declared, fastest } of report.tuning ?? []) {
      expect(declared).toEqual({ WG: 64 });
      expect(best).toEqual(fastest?.verdict === 'faster' ? fastest.overrides : declared);
      expect(tried.map(({ overrides }) => overrides['WG'])).toEqual([8, 32, 64]);
      expect([8, 32, 64]).toContain(best['WG']);
      expect(best_ms).toBe(tried.find(({ overrides }) => overrides['WG'] === best['WG'])?.ms);
      expect(builtin_ms).toBeGreaterThan(0);
    }
    expect(report.tuning?.some(({ shape: text }) => text.includes('rows=160'))).toBe(true);
  });

  it('that make the kernel wrong are skipped', async () => {
    const source = tunable.source.replace('= sum;', '= sum * select(1.0, 2.0, WG == 8u);');
    const report = await gate({ ...tunable, source });
    expect(report).toMatchObject({ accepted: true });
    expect(codes(report)).toContain('combination_failed');
    for (const { tried } of report.tuning ?? []) {
      expect(tried.map(({ overrides }) => overrides['WG'])).toEqual([32, 64]);
    }
  });

  it('that all fail are an error', async () => {
    const report = await gate({ ...tunable, source: tunable.source.replace('= sum;', '= sum * 2.0;') });
    expect(report).toMatchObject({ accepted: false });
    expect(codes(report)).toContain('wrong_result');
    expect(report.tuning).toEqual([]);
  });

  it('have findings about the combination that is kept, at their lines', async () => {
    // A loop that has one turn with a large stride, and several with a small one; the override has no value but those that are tried.
    const loop = 'for (var t = 0u; t < params.blocks; t += STRIDE) { unused += f32(t); }';
    const source = `override STRIDE: u32;\n${matmul.source.replace('var sum = 0.0;', `var sum = 0.0;\n  var unused = 0.0;\n  ${loop}\n  sum += 0.0 * unused;`)}`;
    const line = source.split('\n').findIndex((text) => text.includes(loop)) + 1;
    const report = async (strides: number[]) => {
      const { stages } = await gate({ ...matmul, source, tunables: { STRIDE: strides } });
      return stages
        .flatMap(({ findings }) => findings)
        .filter(({ code }) => code === 'untested_loop' || code === 'conditions_unchecked');
    };
    expect(await report([1])).toEqual([]);
    expect(await report([4096])).toEqual([
      expect.objectContaining({
        code: 'untested_loop',
        line,
        message: expect.stringMatching(/^with STRIDE=4096: the loop with t < params.blocks/),
      }),
    ]);
  });

  it('that exceed limits of the adapter are skipped', async () => {
    const report = await gate({ ...tunable, tunables: { WG: [64, 4096] } });
    if (!report.accepted) expect(codes(report)).toContain('workgroup_size');
    else expect(codes(report)).toContain('limit_exceeded');
  });
});
