import { beforeAll, describe, expect, it } from 'vitest';
import { create, globals } from 'webgpu';
import { assemble, type Variant, type WgslSources } from '../../kernels/assemble.ts';
import { contracts } from '../../kernels/contracts.ts';
import type { Kernel } from '../../kernels/define.ts';
import { kernels } from '../support/all-kernels.ts';
import { layoutEntries } from '../../src/engine/gpu/pipelines.ts';
import { stubSource } from '../../src/lab/stubs.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { selectVariants } from '../support/tier.ts';

Object.assign(globalThis, globals);
// Kept alive until the process ends: Dawn crashes if an instance is destroyed before its devices.
const gpu = create(['backend=null', 'enable-dawn-features=allow_unsafe_apis']);

let sources: WgslSources;
/** A device with exactly these features, and the limits that every device has. */
async function deviceWith(features: GPUFeatureName[]): Promise<GPUDevice> {
  const adapter = await gpu.requestAdapter();
  if (!adapter) throw new Error('Dawn has no null backend');
  const { maxStorageBuffersPerShaderStage } = adapter.limits;
  return adapter.requestDevice({
    requiredFeatures: features,
    requiredLimits: { maxStorageBuffersPerShaderStage },
  });
}

/** Features that a variant may require beyond core WebGPU. */
const featuresOf = (variant: Variant): GPUFeatureName[] => [
  ...(variant['SUBGROUPS'] === true ? (['subgroups'] as const) : []),
  ...(variant['F16'] === true ? (['shader-f16'] as const) : []),
  ...(variant['MATRIX'] === true
    ? (['shader-f16', 'subgroups', 'chromium-experimental-subgroup-matrix'] as GPUFeatureName[])
    : []),
];

const devices = new Map<string, Promise<GPUDevice>>();
const deviceFor = (variant: Variant): Promise<GPUDevice> => {
  const features = featuresOf(variant);
  const key = features.join();
  const device = devices.get(key) ?? deviceWith(features);
  devices.set(key, device);
  return device;
};

const needsLargeMemory = (kernel: Kernel<Variant, never>, variant: Variant): boolean =>
  kernel.needsLargeWorkgroupMemory?.(variant) ?? false;

/** Errors and warnings of the compiler and of pipeline creation. */
async function problemsOf(kernel: Kernel<Variant, never>, variant: Variant): Promise<string[]> {
  const device = await deviceFor(variant);
  device.pushErrorScope('validation');
  const module = device.createShaderModule({ code: assemble(sources, kernel.source, variant) });
  const { messages } = await module.getCompilationInfo();
  const layout = device.createBindGroupLayout({ entries: layoutEntries(kernel, variant) });
  const pipeline = device.createComputePipelineAsync({
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module, entryPoint: 'main' },
  });
  const failure = await pipeline.then(
    () => undefined,
    (error: unknown) => String(error),
  );
  // The null backend has no more workgroup memory than WebGPU guarantees.
  const [, usedBytes] = /total use of workgroup storage \((\d+) bytes\)/.exec(failure ?? '') ?? [];
  const fits = Number(usedBytes) <= 32_768 && needsLargeMemory(kernel, variant);
  const validation = await device.popErrorScope();
  return [
    ...messages
      .filter((message) => message.type !== 'info')
      .map(({ type, lineNum, linePos, message }) => `${lineNum}:${linePos} ${type}: ${message}`),
    ...(failure === undefined || fits ? [] : [failure]),
    ...(validation === null ? [] : [validation.message]),
  ];
}

beforeAll(async () => {
  sources = await nodePlatform().wgsl();
});

describe('every variant of every kernel compiles without errors and warnings, with only the features that it requires', () => {
  for (const kernel of kernels) {
    const variants = selectVariants(kernel.variants);
    it(`${kernel.source}: ${variants.length} of ${kernel.variants.length} variants`, async () => {
      expect(kernel.variants.length).toBeGreaterThan(0);
      const problems: string[] = [];
      for (const variant of variants) {
        for (const problem of await problemsOf(kernel, variant)) {
          problems.push(`${JSON.stringify(variant)} ${problem}`);
        }
      }
      expect(problems).toEqual([]);
    });
  }

  it('reports an error with its line', async () => {
    const [kernel] = kernels;
    const [variant] = kernel?.variants ?? [];
    if (!kernel || !variant) throw new Error('there are no kernels');
    const broken = new Map(sources);
    broken.set(kernel.source, `fn broken() -> u32 {\n  return 1.5;\n}\n`);
    const before = sources;
    sources = broken;
    const problems = await problemsOf(kernel, variant);
    sources = before;
    expect(problems[0]).toMatch(/^2:\d+ error: /);
  });
});

/** WGSL sources of the lab's stubs (`src/lab/stubs.ts`), without their includes. */
const stubSources = () => [...contracts.values()].map(stubSource);

describe('WGSL sources', () => {
  it('every file is a kernel or included by one', () => {
    const used = new Set([...kernels.map(({ source }) => source), ...stubSources()]);
    for (const text of sources.values()) {
      for (const [, path = ''] of text.matchAll(/\/\/#include "(.+)"/g)) {
        if (!path.includes('$')) used.add(path);
        const pattern = new RegExp(`^${path.replaceAll('.', '\\.').replace(/\$\w+/g, '\\w+')}$`);
        for (const name of sources.keys()) if (pattern.test(name)) used.add(name);
      }
    }
    expect([...sources.keys()].filter((name) => !used.has(name))).toEqual([]);
  });

  it('no function declares an array without an initializer', () => {
    // In WGSL, such an array is zero in each iteration of a loop; Dawn on Vulkan keeps the old contents.
    const found: string[] = [];
    for (const [name, text] of sources) {
      text.split('\n').forEach((line, index) => {
        if (/^\s+var\s+\w+\s*:\s*array\s*<[^=]*;/.test(line))
          found.push(`${name}:${index + 1} ${line.trim()}`);
      });
    }
    expect(found).toEqual([]);
    expect(/^\s+var\s+\w+\s*:\s*array\s*<[^=]*;/.test('  var sum: array<f32, 4>;')).toBe(true);
  });

  it('opens with a comment that says what it computes', () => {
    for (const [name, text] of sources) expect(text, name).toMatch(/^\/\/ \S/);
  });
});
