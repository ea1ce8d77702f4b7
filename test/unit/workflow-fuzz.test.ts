import { readdirSync, readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TomlDocument } from '../../src/agent/workflows/definition/toml-document.ts';
import { parseEnsemble } from '../../src/agent/workflows/definition/parse-ensemble.ts';
import { lintText, workflow } from '../support/workflows.ts';
import { rounds } from '../support/tier.ts';

const folder = new URL('../../workflows/', import.meta.url);
const valid = [
  workflow(),
  workflow({
    rest: 'grants = {read = ["/a"]}\n[entry]\nkind = "armed"',
    step: 'prompt = """\n{{input}}"""\nwhen = "true"',
  }),
  ...readdirSync(folder).map((file) => readFileSync(new URL(file, folder), 'utf8')),
];

/** Linting never throws, findings point into the source, and a valid workflow can be parsed. */
async function holds(source: string) {
  const { report, ensemble, consent } = await lintText(source);
  const lines = source.replace(/^\uFEFF/, '').split('\n');
  for (const { line, column, code, message } of [...report.errors, ...report.warnings]) {
    expect(code).toMatch(/^[a-z_]+$/);
    expect(message).not.toBe('');
    expect(line).toBeGreaterThanOrEqual(1);
    expect(line).toBeLessThanOrEqual(lines.length);
    expect(column).toBeGreaterThanOrEqual(1);
    expect(column).toBeLessThanOrEqual((lines[line - 1]?.length ?? 0) + 1);
  }
  expect(report.ok).toBe(report.errors.length === 0);
  expect(ensemble !== undefined).toBe(report.ok);
  expect(consent !== undefined).toBe(
    new TomlDocument(source).isParsed && report.errors.every(({ code }) => code !== 'too_large'),
  );
  if (report.ok) expect(parseEnsemble(source)).toEqual(ensemble);
  return report;
}

const piece = fc.constantFrom(
  '[',
  ']',
  '[[',
  ']]',
  '{',
  '}',
  '=',
  '.',
  '"',
  '"""',
  "'",
  ',',
  '\n',
  '\r\n',
  ' ',
  '#',
  '{{',
  '}}',
  '\\',
  '\u0000',
  '\uFEFF',
  'name',
  'steps',
  'agents',
  'inputs',
  'ensemble',
  'gate',
  'kind',
  'needs',
  'when',
  'prompt',
  'a',
  'b',
  '"input"',
  '__proto__',
  '1',
  '-1',
  '1.5',
  'true',
  'inf',
  '2030-01-01T00:00:00Z',
  '0x1',
  '12345678901234567890',
  '[]',
  '{}',
  '"x"',
  'steps.a.output',
);

describe('linting', () => {
  it('of any text', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary', maxLength: 300 }),
        async (text) => void (await holds(text)),
      ),
    );
  });

  it('of anything like TOML', async () => {
    const text = fc.array(piece, { maxLength: 60 }).map((pieces) => pieces.join(''));
    await fc.assert(
      fc.asyncProperty(text, async (one) => void (await holds(one))),
      { numRuns: rounds(1000, 333) },
    );
  });

  it('of valid workflows with random changes', async () => {
    const edit = fc.record({
      at: fc.nat(),
      cut: fc.nat({ max: 12 }),
      put: fc.array(piece, { maxLength: 3 }),
    });
    const changed = fc
      .tuple(fc.constantFrom(...valid), fc.array(edit, { minLength: 1, maxLength: 3 }))
      .map(([source, edits]) =>
        edits.reduce((text, { at, cut, put }) => {
          const place = at % (text.length + 1);
          return text.slice(0, place) + put.join('') + text.slice(place + cut);
        }, source),
      );
    await fc.assert(
      fc.asyncProperty(changed, async (one) => void (await holds(one))),
      { numRuns: rounds(400, 133) },
    );
  });

  it('of valid workflows with lines left out, twice, or in another order', async () => {
    const changed = fc
      .tuple(fc.constantFrom(...valid), fc.nat(), fc.nat(), fc.constantFrom('drop', 'twice', 'swap'))
      .map(([source, a, b, what]) => {
        const lines = source.split('\n');
        const [i, j] = [a % lines.length, b % lines.length];
        if (what === 'drop') lines.splice(i, 1);
        else if (what === 'twice') lines.splice(i, 0, lines[j] ?? '');
        else [lines[i], lines[j]] = [lines[j] ?? '', lines[i] ?? ''];
        return lines.join('\n');
      });
    await fc.assert(
      fc.asyncProperty(changed, async (one) => void (await holds(one))),
      { numRuns: rounds(400, 133) },
    );
  });
});
