import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { benchDiffLines, diffBenches } from '../../src/lab-tool/bench-diff.ts';
import { benchLines, benchSummary, verdictSentence } from '../../src/lab-tool/bench-text.ts';
import { configDiffLines, diffConfigs } from '../../src/lab-tool/config-diff.ts';
import { formatError, formatNumber } from '../../src/lab-tool/figures.ts';
import { findingLines } from '../../src/lab-tool/findings-text.ts';
import { outcomeLines } from '../../src/lab-tool/gate-text.ts';
import { graphLines } from '../../src/lab-tool/graph-text.ts';
import { groupByLayer } from '../../src/lab-tool/layer-groups.ts';
import { diffLines, hunksOf } from '../../src/lab-tool/line-diff.ts';
import { nextStepLines } from '../../src/lab-tool/next-step.ts';
import { table } from '../../src/terminal/table.ts';
import { truncate, displayWidth } from '../../src/terminal/text.ts';
import type { BenchResult, BenchVerdict, LabGraph } from '../../src/lab/types.ts';
import { benchResult, config, gate } from '../support/fake-lab-host.ts';

const look = { paint: (_: string, text: string) => text, width: 80 };
const at = (line: number, column?: number, length?: number) => ({
  file: 'k.wgsl',
  code: 'wrong',
  severity: 'error' as const,
  message: 'it is wrong',
  line,
  ...(column === undefined ? {} : { column }),
  ...(length === undefined ? {} : { length }),
});
/** The text above the carets. */
const marked = (lines: readonly string[]): string => {
  const [source = '', carets = ''] = lines.slice(-2);
  return source.slice(carets.indexOf('^'), carets.lastIndexOf('^') + 1);
};

describe('findings', () => {
  test('look like those of a compiler', () => {
    expect(findingLines(at(2, 7, 3), ['', 'let a bad b'], look)).toEqual([
      'k.wgsl:2:7 error[wrong] it is wrong',
      '    2 | let a bad b',
      '      |       ^^^',
    ]);
  });

  test('carets are under the location after tabs', () => {
    expect(marked(findingLines(at(1, 4, 3), ['\ta\tbad'], look))).toBe('bad');
  });

  test('and after characters of two columns', () => {
    const [, source = '', carets = ''] = findingLines(at(1, 4, 3), ['日本 bad'], look);
    expect(displayWidth(source.slice(0, source.indexOf('bad')))).toBe(carets.indexOf('^'));
    expect(carets.trim()).toBe('| ^^^'.replace(' ^', `${' '.repeat(6)}^`));
  });

  test('a long line is truncated around the location', () => {
    const lines = findingLines(at(1, 301, 3), [`${'a'.repeat(300)}bad${'c'.repeat(300)}`], look);
    expect(marked(lines)).toBe('bad');
    for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(80);
  });

  test('a location after the end of its line has a caret; one without a column has none', () => {
    expect(
      findingLines(at(1, 50, 9), ['abc'], look)
        .at(-1)
        ?.endsWith('^'),
    ).toBe(true);
    expect(findingLines(at(1), ['abc'], look)).toHaveLength(2);
    expect(findingLines(at(9, 1, 1), ['abc'], look)).toHaveLength(1);
  });

  test('carets never extend beyond the line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(40), fc.nat(40), (text, column, length) => {
        const source = text.replaceAll('\n', ' ');
        const lines = findingLines(at(1, column + 1, length), [source], look);
        expect(lines.at(-1)).toContain('^');
        for (const line of lines) expect(line).not.toMatch(/\p{Cc}/u);
      }),
    );
  });

  test('control characters from the host are escaped', () => {
    const finding = { ...at(1, 1, 1), message: 'a\u001b[2Jb\u0007' };
    expect(findingLines(finding, ['\u001b[31m'], look).join('')).not.toMatch(/\p{Cc}/u);
  });
});

describe('reports', () => {
  const outcomeOf = (source: string) => {
    const report = gate({ name: 'k', op: 'rms_norm', source, dispatch: { x: 'tokens' } });
    const findings = report.stages.flatMap((stage) =>
      stage.findings.map((each) => ({ ...each, file: 'k.wgsl' })),
    );
    const lines = new Map([['k.wgsl', source.split('\n')]]);
    return {
      file: 'k.wgsl',
      kernel: 'k',
      op: 'rms_norm',
      accepted: report.accepted,
      findings,
      report,
      bind: [],
      lines,
    };
  };

  test('an accepted kernel: stages, then one row for each parity case with its limit and the built-in error', () => {
    const lines = outcomeLines(outcomeOf('fn main() {}'), look);
    expect(lines[0]).toBe('✓ k.wgsl  k (rms_norm)  accepted in 212 ms');
    expect(lines[1]).toBe('  ✓ parse  ✓ interface  ✓ safety  ✓ pipeline  ✓ parity');
    expect(lines[3]).toMatch(/✓ {2}random 3x256 +1\.2e-14 +3\.1e-7 +1\.0e-7 +1\.1e-14$/);
    for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(80);
  });

  test('a rejected one: the location first, and dots for stages that did not run', () => {
    const lines = outcomeLines(outcomeOf('fn main() {\n  bad\n}'), look);
    expect(lines[0]).toMatch(/^k\.wgsl:2:3 error\[out_of_bounds\]/);
    expect(marked(lines.slice(0, 3))).toBe('bad');
    expect(lines.at(-1)).toBe('  ✓ parse  ✓ interface  ✗ safety  · pipeline  · parity');
  });

  test('a failed case names the worst element; null from the host means not finite', () => {
    const good = outcomeOf('fn main() {}');
    const [first] = good.report.parity ?? [];
    const failed = {
      ...first,
      ok: false,
      nmse: null,
      worst: { output: 'y', index: 7, expected: 0.5, got: null },
    };
    const report = JSON.parse(
      JSON.stringify({ ...good.report, accepted: false, parity: [failed] }),
    ) as typeof good.report;
    const text = outcomeLines({ ...good, accepted: false, report }, look).join('\n');
    expect(text).toContain('not finite');
    expect(text).toContain('worst at y[7], expected 0.5, got not finite');
  });

  test('tuning: the default is kept unless another one is faster beyond the noise, with the amount', () => {
    const outcome = outcomeOf('fn main() {}');
    const tuned = (best: number, verdict: BenchVerdict) => ({
      shape: 'tokens=1 columns=256',
      best: { WG: best },
      best_ms: 0.2,
      default: { WG: 64 },
      fastest: {
        overrides: { WG: 32 },
        ratio: 1.031,
        ci95: { low: 1.012, high: 1.052 },
        control: { ratio: 1, ci95: { low: 0.99, high: 1.01 } },
        verdict,
      },
      tried: [{ overrides: { WG: 32 }, ms: 0.2 }],
    });
    const textOf = (one: ReturnType<typeof tuned>) =>
      outcomeLines({ ...outcome, report: { ...outcome.report, tuning: [one] } }, look)
        .join(' ')
        .replaceAll(/\s+/g, ' ');
    const amount = '+3.1% (+1.2% to +5.2%) against the default WG=64';
    expect(textOf(tuned(32, 'faster'))).toContain(`WG=32 is kept for tokens=1 columns=256: ${amount}`);
    expect(textOf(tuned(64, 'inconclusive'))).toContain(
      `WG=32 had the shortest time for tokens=1 columns=256, but ${amount} is not beyond the noise: the default is kept`,
    );
  });

  test('a case that failed for a reason other than its values names no worst element', () => {
    const good = outcomeOf('fn main() {}');
    const parity = (good.report.parity ?? []).map((verdict) => ({
      ...verdict,
      ok: false,
      worst: { output: 'y', index: 7, expected: 0.5, got: 0.500000001 },
    }));
    const report = { ...good.report, accepted: false, parity };
    expect(outcomeLines({ ...good, accepted: false, report }, look).join('\n')).not.toContain('worst at');
  });
});

describe('tables and figures', () => {
  test('a column shrinks on a narrow terminal', () => {
    const rows = [['a'.repeat(90), '1']];
    const lines = table(
      [
        { title: 'long', minWidth: 10 },
        { title: 'n', align: 'right' },
      ],
      rows,
      { ...look, width: 40 },
    );
    expect(lines.map(displayWidth)).toEqual([40, 40]);
    expect(lines[1]).toMatch(/^a{36}… {2}1$/);
  });

  test('clip counts columns', () => {
    expect(truncate('日本語', 4)).toBe('日…');
    expect(truncate('abc', 3)).toBe('abc');
  });

  test('figures', () => {
    expect([
      formatNumber(41.234),
      formatNumber(0.01234),
      formatNumber(812.4),
      formatNumber(0),
      formatNumber(null),
      formatNumber(1e-9),
    ]).toEqual(['41.2', '0.0123', '812', '0', '-', '1.00e-9']);
    expect([0, 1.23e-14, null, Number.MAX_VALUE].map(formatError)).toEqual([
      '0',
      '1.2e-14',
      'not finite',
      'not finite',
    ]);
  });

  test('items that differ only in the layer are one row', () => {
    const items = [0, 1, 2, 4].flatMap((layer) => [
      { id: `layers.${layer}.norm`, kernel: layer === 1 ? 'mine' : 'builtin' },
      { id: `layers.${layer}.mlp`, kernel: 'builtin' },
    ]);
    const groups = groupByLayer([...items, { id: 'output', kernel: 'builtin' }], (item) => item.kernel);
    expect(groups.map(({ pattern, items: own }) => [pattern, own.length])).toEqual([
      ['layers.{0,2,4}.norm', 3],
      ['layers.*.mlp', 4],
      ['layers.1.norm', 1],
      ['output', 1],
    ]);
  });
});

describe('line diff', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 });

  test('its lines reproduce both texts', () => {
    fc.assert(
      fc.property(text, text, (before, after) => {
        const lines = diffLines(before, after);
        expect(lines.filter(({ kind }) => kind !== 'added').map((line) => line.text)).toEqual(before);
        expect(lines.filter(({ kind }) => kind !== 'removed').map((line) => line.text)).toEqual(after);
      }),
    );
  });

  test('one changed line is one removed and one added', () => {
    const before = ['a', 'b', 'c', 'd'];
    expect(diffLines(before, ['a', 'x', 'c', 'd']).map(({ kind }) => kind[0])).toEqual([
      's',
      'r',
      'a',
      's',
      's',
    ]);
  });

  test('hunks contain the lines around a change and their positions', () => {
    const before = Array.from({ length: 30 }, (_, line) => `line ${line + 1}`);
    const after = before.with(4, 'five').toSpliced(20, 1);
    const hunks = hunksOf(diffLines(before, after));
    expect(hunks.map((hunk) => [hunk.before, hunk.after, hunk.lines.length])).toEqual([
      [2, 2, 8],
      [18, 18, 7],
    ]);
  });

  test('very long texts are still compared', () => {
    const many = (start: string) => Array.from({ length: 5000 }, (_, line) => `${start}${line}`);
    const lines = diffLines(['same', ...many('a')], ['same', ...many('b')]);
    expect(lines.filter(({ kind }) => kind === 'removed')).toHaveLength(5000);
    expect(lines[0]).toEqual({ kind: 'same', text: 'same' });
  });
});

describe('diff', () => {
  test('of configs: bindings, members and source', () => {
    const before = config('fn main() {\n  let a = 1;\n}\n');
    const changed = config('fn main() {\n  let a = 2;\n}\n', ['layers.1.attn.norm']);
    const after = {
      ...changed,
      kernels: changed.kernels.map((kernel) => ({ ...kernel, dispatch: { x: '1' } })),
    };
    const found = diffConfigs(before, after);
    expect(configDiffLines(found, look)).toEqual([
      'bindings',
      '- layers.0.attn.norm = my_norm',
      '+ layers.1.attn.norm = my_norm',
      'kernel my_norm',
      '  - dispatch: {"x":"tokens"}',
      '  + dispatch: {"x":"1"}',
      '@@ -1,3 +1,3 @@',
      ' fn main() {',
      '-  let a = 1;',
      '+  let a = 2;',
      ' }',
    ]);
    expect(found.same).toBe(false);
  });

  test('of equal configs, saved at another time', () => {
    const before = config('fn main() {}');
    expect(diffConfigs(before, { ...before, created_at: '2027-01-01T00:00:00Z', name: 'x' }).same).toBe(true);
  });

  test('of benches: the same component of all layers is one row, as a fraction of the built-in step of its run', () => {
    const layers = (id: (layer: number) => string, ms: number) =>
      [0, 1].flatMap((layer) =>
        benchResult()
          .components.slice(0, 1)
          .map((one) => ({ ...one, id: id(layer), gpu_ms: ms })),
      );
    const of = (ms: number, slowdown: number) => ({
      ...benchResult(),
      components: [
        ...layers((layer) => `layers.${layer}.mlp`, ms * slowdown),
        ...layers((layer) => `layers.${layer}.rest`, 0),
      ].map((one) => ({ ...one, baseline_ms: 2 * slowdown })),
    });
    const linesOf = (slowdown: number) =>
      benchDiffLines(diffBenches(of(2, 1), of(1, slowdown)), ['a', 'b'], look).filter((line) =>
        line.includes('mlp'),
      );
    expect(linesOf(1)).toEqual([expect.stringMatching(/^layers\.\*\.mlp +50\.0% +25\.0% +0\.500$/)]);
    // A machine that was slower in the second run changes nothing.
    expect(linesOf(3)).toEqual(linesOf(1));
  });

  test('a built-in kernel is shown by its file, without the variant', () => {
    const graph: LabGraph = {
      model: 'm',
      nodes: [
        {
          id: 'embed',
          op: 'embed',
          component: 'embed',
          slot: 'embed',
          kernel: 'builtin:embed.wgsl?WG=64',
          dtype: 'f16',
          shape: [1],
          flops: 1,
          bytes: 1,
        },
      ],
      edges: [],
      spans: [],
    };
    const text = graphLines(graph, look).join('\n');
    expect(text).toContain('built-in embed.wgsl');
    expect(text).not.toContain('WG=64');
  });

  test('of benches: figures side by side, and differences between the fingerprints', () => {
    const [a, b] = [benchResult(1), benchResult(1.5)];
    const found = diffBenches(a, { ...b, beside: ['k'], fingerprint: { ...b.fingerprint, dawn: '0.7' } });
    const decode = found.speeds.find(({ figure }) => figure === 'decode');
    expect(decode).toMatchObject({ ratio: expect.closeTo(1.5), differs: true });
    const lines = benchDiffLines(found, ['a.json', 'b.json'], look);
    expect(lines.join('\n')).toContain('! different dawn: 0.6.2 / 0.7');
    expect(lines.join('\n')).toContain('! different baseline: built-in kernels / built-in kernels and k');
    expect(lines[1]).toBe('B b.json: decode +50.0% (+48.8% to +51.3%) faster');
    expect(lines.find((line) => line.startsWith('decode at 128'))).toMatch(
      /\+0\.0% \(-1\.2% to \+1\.3%\) +\+50\.0% \(\+48\.8% to \+51\.3%\) +1\.500 +yes$/,
    );
    for (const line of lines) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
  });

  test('of benches: ratios whose intervals overlap do not differ, however fast the machine was', () => {
    const [a, b] = [benchResult(1.02), benchResult(1.03)];
    const { speeds } = diffBenches(a, { ...b, bound: { decode_tps: 400, prefill_tps: 9000 } });
    expect(speeds.map(({ differs }) => differs)).not.toContain(true);
  });
});

describe('bench', () => {
  test('fits 80 columns and states the verdict', () => {
    const lines = benchLines(benchResult(), look);
    for (const line of lines) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
    expect(lines.join(' ').replaceAll(/\s+/g, ' ')).toContain(
      'Decoding at 128 tokens is 6.8% faster with the bound kernels (95% interval +5.6% to +8.1%',
    );
    expect(lines.join('\n')).toContain('! the built-ins drifted');
  });

  test('names what it measured, and what else was bound, with the amounts of each verdict', () => {
    const result = { ...benchResult(0.9), beside: ['fast_qkv'], verdict: 'slower' as const };
    expect(benchSummary(result, { ...look, width: 200 })).toEqual([
      'bench  my_norm, 12 rounds, beside fast_qkv, which both arms run',
      '  decode  -10.0% (-11.2% to -8.7%) slower',
      '  prefill +0.3% (-0.9% to +1.6%) no difference of 10% or more',
    ]);
    expect(benchSummary(benchResult(), look)).toHaveLength(3);
  });

  describe('the next step', () => {
    const step = (change: Partial<BenchResult>, flags: readonly string[] = []) => {
      const result = benchResult(1);
      const rows = { verdict: change.verdict ?? result.verdict };
      const all = { ...result, decode: result.decode.map((row) => ({ ...row, ...rows })), ...change };
      return nextStepLines(all, flags, { ...look, width: 400 }).join('\n');
    };

    test('depends on the verdict, and names the kernel', () => {
      expect(step({ verdict: 'faster' })).toMatch(/^next: node dist\/lab\.js save my_norm, /);
      expect(step({ verdict: 'slower' })).toMatch(/^next: node dist\/lab\.js profile my_norm, /);
      expect(step({ prefill: { ...benchResult().prefill, verdict: 'slower' } })).toContain(
        'profile my_norm --prefill',
      );
      expect(step({ verdict: 'suspect' })).toMatch(/^next: node dist\/lab\.js parity, /);
      expect(step({ verdict: 'no_difference', effect: 0.1 })).toContain('bench --effect 0.03 looks for');
      const { decode, fingerprint } = benchResult(1);
      const mixed = decode.map((row, n) => ({
        ...row,
        verdict: n === 0 ? ('faster' as const) : ('slower' as const),
      }));
      expect(step({ verdict: 'inconclusive', decode: mixed })).toContain('slower at 1024 tokens');
      expect(step({ fingerprint: { ...fingerprint, kernels: {} } })).toContain("bind KERNEL 'GLOB'");
    });

    test('more rounds, as many as the interval needs, with the flags of the bench', () => {
      const wide = { verdict: 'inconclusive' as const, rounds: 20, effect: 0.1 };
      // The half-width for 10 % is 3.67 %: 1.5 times as wide needs 2.25 times as many rounds.
      const ratio_ci95 = [Math.exp(-0.055), Math.exp(0.055)] as const;
      expect(step({ ...wide, ratio_ci95: [...ratio_ci95] }, ['--contexts 64'])).toContain(
        'next: node dist/lab.js bench --contexts 64 --rounds 50,',
      );
      expect(step({ ...wide, ratio_ci95: [0.5, 2] })).toContain('on a quieter machine');
      expect(step({ ...wide, rounds: 1, ratio_ci95: [1, 1] })).toContain('--rounds 10,');
    });
  });

  test('warns if nothing was bound', () => {
    const result = benchResult();
    const components = result.components.map((each) => ({ ...each, kernel: 'builtin:matmul.wgsl' }));
    const warning = '! no kernel is bound';
    expect(benchLines({ ...result, components }, look).join('\n')).toContain(warning);
    expect(benchLines(result, look).join('\n')).not.toContain(warning);
  });

  test.each([
    ['slower', 'is 10.0% slower'],
    ['no_difference', 'no difference of 10% or more'],
    ['inconclusive', 'a difference of 10% would not be seen'],
    ['suspect', 'do not rely on it'],
  ] as const)('%s', (verdict, words) => {
    const ci95 = { low: 0.88, high: 0.92 };
    expect(verdictSentence('It', { ratio: 0.9, ci95, control: { ratio: 1, ci95 }, verdict }, 0.1)).toContain(
      words,
    );
  });
});
