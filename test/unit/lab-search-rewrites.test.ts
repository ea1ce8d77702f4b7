import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import { readWgslSource } from '../../src/lab-tool/local-kernels.ts';
import { tuneOverrides, unrollLoops } from '../../src/lab-tool/search/rewrites.ts';
import { withoutOverlaps } from '../../src/lab-tool/search/run-search.ts';
import { widenLoads } from '../../src/lab-tool/search/vector-loads.ts';
import { renderHeader } from '../../src/lab/kernel-header.ts';
import { renderStub, stubTargets } from '../../src/lab/stubs.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { nullDevice } from '../support/null-gpu.ts';

describe('rewrites of a search', () => {
  it.each([
    [
      'for (var i = 0u; i < 2u; i++) { x[i] = i; }',
      '{ const i = 0u; x[i] = i; }\n{ const i = 1u; x[i] = i; }',
    ],
    [
      'for (var i = 1; i < 3; i += 1) { a(i); b(); }',
      '{ const i = 1; a(i); b(); }\n{ const i = 2; a(i); b(); }',
    ],
  ])('a loop over constants becomes its turns: %s', (loop, turns) => {
    expect(unrollLoops(`fn f() { ${loop} }`)).toBe(`fn f() { ${turns} }`);
  });

  it.each([
    'for (var i = 0u; i < n; i++) { x[i] = i; }',
    'for (var i = 0u; i < 64u; i++) { x[i] = i; }',
    'for (var i = 0u; i < 4u; i += 2u) { x[i] = i; }',
    'for (var i = 0u; i < 4u; i++) { if (x[i] == 0u) { break; } }',
    'for (var i = 0u; i < 4u; i++) { i += x[i]; }',
    'for (var i = 0u; i < 4u; i++) { next(&i); }',
    'while (x[0] < 4u) { x[0]++; }',
  ])('other loops stay: %s', (loop) => {
    expect(unrollLoops(`fn f() { ${loop} }`)).toBeUndefined();
  });

  it('stubs of every op have values to try', async () => {
    const wgsl = await nodePlatform().wgsl();
    for (const { op } of contracts.values())
      for (const target of stubTargets(op, ['shader-f16', 'subgroups'])) {
        const stub = renderStub(wgsl, op, target);
        const text = `${renderHeader({ op, ...stub })}${stub.source}`;
        const [{ registration } = {}] = readWgslSource(text, `${op}.wgsl`).kernels;
        const tuned = registration && tuneOverrides(registration);
        const [{ registration: again, faults } = { faults: [] }] = readWgslSource(
          tuned ?? '',
          `${op}.wgsl`,
        ).kernels;
        expect(faults, `${op} ${target}`).toEqual([]);
        expect(Object.keys(again?.tunables ?? {}).join(), `${op} ${target}`).toMatch(/^(?:WG|ROWS|WG,ROWS)$/);
        expect(tuneOverrides(again as NonNullable<typeof again>)).toBeUndefined();
      }
  });

  const arrays = ['x', 'w', 'y'].map((name) => `var<storage, read_write> ${name}: array<f32>;`).join('\n');
  const kernel = (body: string) => `${arrays}\nfn f(local: u32, start: u32, n: u32) { ${body} }`;

  it('loops over neighboring numbers take four at a time', () => {
    const text = widenLoads(
      kernel(
        'let a = x[7]; for (var c = local; c < n; c += WG) { let v = x[start + c] * w[c]; y[start + c] = v + f32(c); }',
      ),
    );
    expect(text?.replaceAll(/\s+/g, ' ')).toBe(
      `${arrays.replaceAll('<f32>', '<vec4<f32>>').replaceAll('\n', ' ')} fn f(local: u32, start: u32, n: u32) { ` +
        'let a = x[(7) / 4u][(7) % 4u]; for (var c_four = local; c_four < (n) / 4u; c_four += WG) { ' +
        'let x_four_0 = x[(start) / 4u + c_four]; let w_four_1 = w[c_four]; var y_four_2: vec4<f32>; ' +
        ['x', 'y', 'z', 'w']
          .map(
            (at, k) =>
              `{ let c = 4u * c_four + ${k}u; let v = x_four_0.${at} * w_four_1.${at}; y_four_2.${at} = v + f32(c); } `,
          )
          .join('') +
        'y[(start) / 4u + c_four] = y_four_2; } }',
    );
  });

  it.each([
    ['an output that is read', 'y[start + c] += x[c];', 'var y_four_0 = y[(start) / 4u + c_four];'],
    ['an output that is written in part', 'if (x[c] > 0.0) { y[c] = 1.0; }', 'var y_four_1 = y[c_four];'],
  ])('loads %s', (_, body, load) => {
    expect(widenLoads(kernel(`for (var c = local; c < n; c += WG) { ${body} }`))).toContain(load);
  });

  it.each([
    'for (var c = local; c < n; c += WG) { y[2u * c] = x[c]; }',
    'for (var c = local; c < n; c += WG) { y[c] = x[n - c]; }',
    'for (var c = local; c < n; c += WG) { let at = 3u; y[at + c] = x[c]; }',
    'for (var c = local; c < n; c += WG) { y[c] = x[start]; }',
    'for (var c = local; c < n; c += WG) { y[start + c] = y[c]; }',
    'for (var c = local; c < n; c += WG) { if (x[c] == 0.0) { break; } }',
    'for (var c = local; c < n; c += WG) { y[c] = x[c]; c += 1u; }',
    'for (var c = local; c < n; c += WG) { y[c] = x[u32(w[c]) + c]; }',
    'for (var c = local; c < n; c += WG) { y[c] = x[c]; } y[0] = 1.0;',
    'for (var c = local; c < n; c += WG) { y[c] = x[c]; } for (var i = 0u; i < arrayLength(&x); i++) { }',
  ])('other loops keep their loads: %s', (body) => {
    expect(widenLoads(kernel(body))).toBeUndefined();
  });

  it('stubs with vector loads compile', async () => {
    const wgsl = await nodePlatform().wgsl();
    const { device } = await nullDevice(['shader-f16', 'subgroups']);
    const widened: string[] = [];
    for (const { op } of contracts.values())
      for (const target of stubTargets(op, ['shader-f16', 'subgroups'])) {
        const code = widenLoads(renderStub(wgsl, op, target).source);
        if (code === undefined) continue;
        widened.push(`${op} ${target}`);
        device.pushErrorScope('validation');
        const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
        await device.popErrorScope();
        expect(
          messages.filter(({ type }) => type === 'error').map(({ message }) => message),
          `${op} ${target}`,
        ).toEqual([]);
      }
    expect(widened).toEqual(
      expect.arrayContaining(['rms_norm plain', 'rms_norm subgroups', 'norm_add plain']),
    );
  });

  it('a kernel with unrolled loops compiles', async () => {
    const { device } = await nullDevice(['shader-f16', 'subgroups']);
    const source = readFileSync('docs/samples/gate_up.wgsl', 'utf8');
    const code = unrollLoops(source) ?? '';
    expect(code).toContain('{ const j = 3u;');
    device.pushErrorScope('validation');
    const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
    await device.popErrorScope();
    expect(messages.filter(({ type }) => type === 'error')).toEqual([]);
  });
});

it('a search binds to slots without a component in common, spans before their components', () => {
  const spans = new Map([
    ['a.qkv', ['a.q', 'a.k', 'a.v']],
    ['a.kv', ['a.k', 'a.v']],
  ]);
  expect(withoutOverlaps(['a.q', 'a.k', 'a.v', 'a.o', 'a.kv', 'a.qkv'], spans)).toEqual(['a.o', 'a.qkv']);
  expect(withoutOverlaps(['a.q', 'a.kv', 'a.k'], spans)).toEqual(['a.q', 'a.kv']);
});
