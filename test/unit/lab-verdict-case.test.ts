/** Verdicts of cases, from synthetic runs. */
import { describe, expect, it } from 'vitest';
import { type Contract, contracts } from '../../kernels/contracts.ts';
import { elementsOf, perturbWords, poisonWord } from '../../src/lab/gate/elements.ts';
import { judgeCase } from '../../src/lab/gate/judge-case.ts';
import type { CaseRun } from '../../src/lab/gate/run-case.ts';
import type { ExpectedOutput, ParityCase } from '../../src/lab/types.ts';

const norm = contracts.get('rms_norm') as Contract;
const add = contracts.get('add') as Contract;
const columns = 32;
const tokens = 2;
const one: ParityCase = {
  name: 'random 2x32',
  dims: { tokens, columns },
  params: { columns, eps: 1e-5 },
  tensors: {},
};
const right = Float32Array.from({ length: tokens * columns }, (_, i) => Math.sin(i + 1));
const tolerance = { nmse: 1e-7, max_abs: 1.5e-3, matched_ratio: 0.999 };
const wordsOf = (values: ArrayLike<number>) => new Uint32Array(Float32Array.from(values).buffer);
const poisoned = (poison: 'nan' | 'large') =>
  new Uint32Array(tokens * columns).fill(poisonWord('f32', poison));

interface Runs {
  first?: Uint32Array<ArrayBuffer>;
  second?: Uint32Array<ArrayBuffer>;
  perturbedOutputs?: Uint32Array<ArrayBuffer>;
  before?: Uint32Array<ArrayBuffer>;
}
const runOf = ({
  first = wordsOf(right),
  second = first,
  perturbedOutputs: between = wordsOf(right.map((value) => -value)),
  before = poisoned('nan'),
}: Runs): CaseRun => ({
  first: { written: { y: first }, canaries: [], inputs: [] },
  second: { written: { y: second }, canaries: [], inputs: [] },
  perturbedOutputs: { y: between },
  initialContents: { y: before },
  counts: new Uint32Array(0),
});
const judge = (
  runs: Runs | CaseRun,
  {
    contract = norm,
    ...more
  }: Partial<ExpectedOutput> & { contract?: Contract; builtin?: Float32Array } = {},
) =>
  judgeCase({
    contract,
    parityCase: one,
    run: 'counts' in runs ? runs : runOf(runs),
    expected: { y: { values: Float64Array.from(right), ...more } },
    builtin: { y: wordsOf(more.builtin ?? right) },
    tolerance,
  });
const changed = (changes: Readonly<Record<number, number>>) => {
  const words = wordsOf(right);
  const values = new Float32Array(words.buffer);
  for (const [index, value] of Object.entries(changes)) values[Number(index)] = value;
  return words;
};
const texts = ({ findings }: ReturnType<typeof judge>) =>
  findings.map(({ code, severity, message }) => `${severity} ${code}: ${message}`);

describe('a case', () => {
  it('that is correct has no findings', () => {
    const { verdict, findings } = judge({});
    expect(findings).toEqual([]);
    expect(verdict).toMatchObject({ case: 'random 2x32', ok: true, matched_ratio: 1, builtin: { nmse: 0 } });
  });

  it('that is wrong reports the expected value and its location', () => {
    const judgment = judge({ first: changed({ 44: 2 }) });
    const { verdict } = judgment;
    expect(verdict.ok).toBe(false);
    expect(verdict.worst).toEqual({ output: 'y', index: 44, expected: Math.fround(Math.sin(45)), got: 2 });
    expect(texts(judgment)).toEqual([
      expect.stringMatching(
        /^error wrong_result: expected 0.850904, got 2 at y\[44\] \(row 1, column 12\): .*, case random 2x32$/,
      ),
    ]);
  });

  it('has numbers that JSON can represent, also for NaN', () => {
    const { verdict, findings } = judge({ first: changed({ 3: Number.NaN }) });
    expect(findings).toMatchObject([{ code: 'not_finite' }]);
    expect(JSON.parse(JSON.stringify(verdict))).toMatchObject({
      nmse: Number.MAX_VALUE,
      max_abs: Number.MAX_VALUE,
      max_rel: Number.MAX_VALUE,
    });
  });

  it('with poison left in both runs names the first element', () => {
    const first = wordsOf(right);
    const second = wordsOf(right);
    for (const i of [7, 8]) {
      first[i] = poisonWord('f32', 'nan');
      second[i] = poisonWord('f32', 'large');
    }
    expect(texts(judge({ first, second }))).toEqual([
      expect.stringMatching(
        /^error unwritten_output: 2 elements were not written to y, first y\[7\] \(row 0, column 7\)/,
      ),
    ]);
  });

  it('whose runs differ within the tolerance has a warning, beyond it an error', () => {
    const near = judge({ second: changed({ 5: (right[5] as number) * (1 + 1e-6) }) });
    expect(near.verdict.ok).toBe(true);
    expect(near.findings).toMatchObject([{ code: 'nondeterministic', severity: 'warning' }]);
    const far = judge({ second: changed({ 5: 3 }) });
    expect(far.verdict).toMatchObject({ ok: false, worst: { index: 5, got: 3 } });
    expect(far.findings).toMatchObject([{ code: 'nondeterministic', severity: 'error' }]);
  });

  it('whose second run contains results of the perturbed run is a replay', () => {
    const { findings } = judge({ second: changed({ 5: -(right[5] as number) }) });
    expect(findings).toMatchObject([{ code: 'replayed_output', severity: 'error' }]);
  });

  it('must preserve elements outside of the op bit by bit', () => {
    const kept = new Uint8Array(tokens * columns).fill(1, columns);
    const first = wordsOf(right);
    const second = wordsOf(right);
    first.fill(poisonWord('f32', 'nan'), columns);
    second.fill(poisonWord('f32', 'large'), columns);
    expect(judge({ first, second }, { preserved: kept }).findings).toEqual([]);
    second[columns + 2] = 0;
    expect(texts(judge({ first, second }, { preserved: kept }))).toEqual([
      expect.stringMatching(/^error kept_changed: y\[34\] \(row 1, column 2\)/),
    ]);
    // Unspecified elements may have any value.
    expect(judge({ first, second }, { preserved: kept, unspecified: kept }).findings).toEqual([]);
  });

  it('of an in-place op must preserve the initial contents elsewhere', () => {
    const kept = new Uint8Array(tokens * columns).fill(1, columns);
    const before = wordsOf(right.map(() => 7));
    const first = wordsOf(right);
    first.fill(before[0] as number, columns);
    expect(judge({ first, before }, { preserved: kept, contract: add }).findings).toEqual([]);
    const spoilt = first.with(40, 1);
    expect(judge({ first: spoilt, before }, { preserved: kept, contract: add }).findings).toMatchObject([
      { code: 'kept_changed' },
    ]);
  });

  it('with changed inputs or canaries is wrong regardless of its outputs', () => {
    const run = runOf({});
    const spoilt: CaseRun = {
      ...run,
      first: { ...run.first, inputs: [{ binding: 'x', word: 3 }] },
      second: { ...run.second, canaries: [{ binding: 'y', word: -64 }] },
    };
    const { verdict, findings } = judge(spoilt);
    expect(verdict.ok).toBe(false);
    expect(findings).toMatchObject([{ code: 'input_changed' }, { code: 'canary_changed' }]);
    expect(findings[1]?.message).toContain('64 words before y');
  });

  it('less precise than the built-in kernel has a warning, unless the built-in is as imprecise', () => {
    const halves = Float32Array.from(new Float16Array(right));
    const coarse = judge({ first: wordsOf(halves) });
    expect(coarse.verdict.ok).toBe(true);
    expect(coarse.findings).toMatchObject([{ code: 'lower_precision_than_builtin', severity: 'warning' }]);
    expect(judge({ first: wordsOf(halves) }, { builtin: halves }).findings).toEqual([]);
  });
});

describe('elements', () => {
  it('poison values are no plausible results in any type', () => {
    for (const dtype of ['f32', 'f16'] as const) {
      const nan = elementsOf(dtype, Uint32Array.of(poisonWord(dtype, 'nan'))).values;
      const large = elementsOf(dtype, Uint32Array.of(poisonWord(dtype, 'large'))).values;
      expect([...nan].every(Number.isNaN)).toBe(true);
      expect([...large].every((value) => Number.isFinite(value) && value > 1e4)).toBe(true);
    }
  });

  it('of the perturbed run keep integers and change half of the numbers, the other half next time', () => {
    const words = wordsOf(right);
    const inputs = { seed: 5, complement: false };
    expect(perturbWords('u32', words, inputs)).toEqual(words);
    const values = new Float32Array(perturbWords('f32', words, inputs).buffer);
    const others = new Float32Array(perturbWords('f32', words, { ...inputs, complement: true }).buffer);
    const flipped = values.filter((value, i) => value !== right[i]).length;
    expect(flipped).toBeGreaterThan(right.length / 4);
    expect(flipped).toBeLessThan((right.length * 3) / 4);
    values.forEach((value, i) => {
      expect(Math.abs(value)).toBe(Math.abs(right[i] as number));
      expect(value === right[i]).toBe(others[i] !== right[i]);
    });
  });
});
