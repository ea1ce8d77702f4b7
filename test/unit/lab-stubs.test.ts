import { beforeAll, describe, expect, it } from 'vitest';
import { create, globals } from 'webgpu';
import type { WgslSources } from '../../kernels/assemble.ts';
import { contracts } from '../../kernels/contracts.ts';
import { formatNames } from '../../kernels/formats.ts';
import { contractOf, renderStub, stubTargets } from '../../src/lab/stubs.ts';
import { checkSafety } from '../../src/lab/stages/safety.ts';
import { reflect } from '../../src/lab/wgsl/reflect.ts';
import { nodePlatform } from '../../src/platform/node.ts';

Object.assign(globalThis, globals);
// Kept alive until the process ends: Dawn crashes if an instance is destroyed before its devices.
const gpu = create(['backend=null']);

let wgsl: WgslSources;
const devices = new Map<string, GPUDevice>();
beforeAll(async () => {
  wgsl = await nodePlatform().wgsl();
});

/** A device with exactly these features. */
async function deviceWith(features: readonly string[]): Promise<GPUDevice> {
  const key = features.join();
  const known = devices.get(key);
  if (known) return known;
  const adapter = await gpu.requestAdapter();
  if (!adapter) throw new Error('Dawn has no null backend');
  const device = await adapter.requestDevice({ requiredFeatures: [...features] as GPUFeatureName[] });
  devices.set(key, device);
  return device;
}

const every = ['shader-f16', 'subgroups'];
const formatsOf = (op: string) =>
  contracts.get(op)?.bindings.some(({ dtype }) => dtype === 'weights') ? formatNames : [undefined];
const all = [...contracts.keys()].flatMap((op) =>
  stubTargets(op, every).flatMap((target) => formatsOf(op).map((format) => ({ op, target, format }))),
);

describe('stubs', () => {
  it('exist for every op, with targets only if the adapter has the feature', () => {
    for (const op of contracts.keys()) expect(stubTargets(op, [])).toEqual(['plain']);
    expect(stubTargets('matvec', every)).toEqual(['plain', 'f16', 'subgroups']);
    expect(stubTargets('matvec', ['shader-f16'])).toEqual(['plain', 'f16']);
    for (const op of contracts.keys()) expect(stubTargets(op, every)).toEqual(['plain', 'f16', 'subgroups']);
  });

  it('compile without errors and warnings for the bindings of the contract, with only the features that they require', async () => {
    const problems: string[] = [];
    for (const { op, target, format } of all) {
      const { source, overrides, requires } = renderStub(wgsl, op, target, format);
      const device = await deviceWith(requires);
      device.pushErrorScope('validation');
      const module = device.createShaderModule({ code: source });
      const { messages } = await module.getCompilationInfo();
      const layout = device.createBindGroupLayout({
        entries: (contracts.get(op)?.bindings ?? []).map(({ role }, binding) => ({
          binding,
          visibility: GPUShaderStage.COMPUTE,
          buffer: { type: role === 'uniform' ? 'uniform' : role === 'in' ? 'read-only-storage' : 'storage' },
        })),
      });
      const pipeline = await device
        .createComputePipelineAsync({
          layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
          compute: { module, entryPoint: 'main', constants: overrides },
        })
        .then(
          () => undefined,
          (error: unknown) => String(error),
        );
      const failure = (await device.popErrorScope())?.message ?? pipeline;
      const messageTexts = messages
        .filter(({ type }) => type !== 'info')
        .map(({ lineNum, message }) => `${lineNum} ${message}`);
      for (const problem of [...messageTexts, ...(failure === undefined ? [] : [failure])]) {
        problems.push(`${op} ${target} ${format}: ${problem}`);
      }
    }
    expect(problems).toEqual([]);
    expect(all.length).toBeGreaterThan(150);
  });

  it('have nothing that the safety stage warns of', () => {
    const found = new Set<string>();
    for (const { op, target, format } of all) {
      const { source } = renderStub(wgsl, op, target, format);
      for (const { severity, message } of checkSafety(reflect(source), contractOf(op)))
        if (severity !== 'info') found.add(`${op} ${target} ${format}: ${message}`);
    }
    expect([...found]).toEqual([]);
  });

  it('begin with comments, and contain no directives and no repeated blank lines', () => {
    for (const { op, target, format } of all) {
      const { source } = renderStub(wgsl, op, target, format);
      const what = `${op} ${target} ${format}`;
      expect(source.startsWith(`// ${op}`), what).toBe(true);
      expect(source, what).not.toMatch(/\/\/#|\n\n\n|\n\n$|[ \t]\n/);
      const heading = source.slice(0, source.search(/^[^/]/m));
      for (const { name } of contracts.get(op)?.bindings ?? []) expect(heading, what).toContain(` ${name}: `);
    }
  });

  it('document how to register them', () => {
    const { source, dispatch, overrides, requires } = renderStub(wgsl, 'norm_matvec', 'subgroups', 'q8_0');
    expect(dispatch).toEqual(contracts.get('norm_matvec')?.dispatch);
    expect(overrides).toEqual({ WG: 32, ROWS: 4 });
    expect(requires).toEqual(['subgroups']);
    expect(source).toContain('x = ceil(rows / ROWS), y = tokens');
    expect(source).toContain('WG = 32, ROWS = 4');
    expect(renderStub(wgsl, 'rms_norm', 'plain').requires).toEqual([]);
    expect(renderStub(wgsl, 'kv_write', 'f16').requires).toEqual(['shader-f16']);
  });

  it('contain the decoder of the requested weight format and no other', () => {
    for (const format of formatNames) {
      const { source } = renderStub(wgsl, 'matvec', 'plain', format);
      expect(formatNames.filter((name) => source.includes(`// ${name}: a block is`))).toEqual([format]);
      expect(source.split('fn weight_quad').length, format).toBe(2);
    }
  });

  it('document every override that the dispatch rule and the workgroup size need', () => {
    for (const { op, target, format } of all) {
      const { source, dispatch, overrides } = renderStub(wgsl, op, target, format);
      const text = [...Object.values(dispatch), /@workgroup_size\((.*)\)/.exec(source)?.[1]].join(' ');
      for (const [name] of text.matchAll(/\b[A-Z]+\b/g))
        expect(overrides, `${op} ${target}`).toHaveProperty(name);
    }
  });

  it('unknown ops, targets and formats are rejected with a list of the known ones', () => {
    expect(() => stubTargets('nope', [])).toThrow(/op: expected one of embed, rms_norm.*, got 'nope'/);
    expect(() => renderStub(wgsl, 'add', 'simd')).toThrow(/target: expected one of plain, f16.*, got 'simd'/);
    expect(() => renderStub(wgsl, 'matvec', 'plain', 'q8_1')).toThrow(
      /format: expected one of f32.*, got 'q8_1'/,
    );
    expect(() => renderStub(new Map(), 'add', 'plain')).toThrow("no WGSL source 'lab/add.wgsl'");
    const broken = (text: string) => () => renderStub(new Map([['lab/add.wgsl', text]]), 'add', 'plain');
    expect(broken('//#if NOPE\n//#endif')).toThrow("lab/add.wgsl:1: unknown directive '//#if NOPE'");
    expect(broken('//#else')).toThrow('lab/add.wgsl:1');
    expect(broken('//#if F16')).toThrow('lab/add.wgsl: //#if without //#endif');
  });
});
