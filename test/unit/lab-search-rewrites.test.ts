import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { contracts } from '../../kernels/contracts.ts';
import { readWgslSource } from '../../src/lab-tool/local-kernels.ts';
import { tuneOverrides, unrollLoops } from '../../src/lab-tool/search/rewrites.ts';
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
