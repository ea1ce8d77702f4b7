import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, expect, it } from 'vitest';
import { GrammarError } from '../../src/grammar/types.ts';
import { ByteGrammars, seeded } from '../support/grammar-walks.ts';
import { validatorOf } from '../support/schema-validator.ts';
import { describeShared } from '../support/shared.ts';
import { everyNth } from '../support/tier.ts';

interface Case {
  readonly name: string;
  readonly schema: unknown;
  readonly tests: readonly { readonly data: unknown; readonly valid: boolean }[];
}

let grammars: ByteGrammars;
beforeAll(async () => {
  grammars = await ByteGrammars.open();
});

/** Every schema is rejected with a reason, or gives only valid values; a share of the valid instances is writable. */
async function judge(cases: readonly Case[], draft: 'draft7' | 'draft2020-12', walks: number) {
  const found = { passed: 0, refused: 0, valid: 0, writable: 0, finished: 0 };
  for (const { name, schema, tests } of cases) {
    let grammar: Awaited<ReturnType<ByteGrammars['compile']>>;
    try {
      grammar = await grammars.compile({ kind: 'json_schema', schema });
    } catch (error) {
      if (!(error instanceof GrammarError))
        throw new Error(`${name}: ${JSON.stringify(schema)}`, { cause: error });
      expect(error.message, name).toMatch(/^JSON schema.{20,}/s);
      found.refused++;
      continue;
    }
    found.passed++;
    const fits = validatorOf(schema, draft);
    const random = seeded(found.passed);
    for (let walk = 0; walk < walks; walk++) {
      const text = await grammar.walk(random, 1500);
      if (text === undefined) continue;
      found.finished++;
      const where = `${name}: ${JSON.stringify(schema)} let ${text} through`;
      expect(() => JSON.parse(text) as unknown, where).not.toThrow();
      if (fits) expect(fits(JSON.parse(text)), where).toBe(true);
    }
    for (const { data, valid } of tests) {
      const writable = (await grammar.reads(JSON.stringify(data))) === 'whole';
      if (valid) {
        found.valid++;
        if (writable) found.writable++;
      } else if (writable && fits) {
        // The suite differs from ajv in some formats; ajv decides.
        expect(fits(data), `${name}: ${JSON.stringify(schema)} lets ${JSON.stringify(data)} through`).toBe(
          true,
        );
      }
    }
    grammar.dispose();
  }
  return found;
}

const suite = (folder: string): Case[] =>
  readdirSync(folder).flatMap((file) =>
    (
      JSON.parse(readFileSync(join(folder, file), 'utf8')) as {
        description: string;
        schema: unknown;
        tests: Case['tests'];
      }[]
    ).map(({ description, schema, tests }) => ({ name: `${file}: ${description}`, schema, tests })),
  );

for (const draft of everyNth(['draft2020-12', 'draft7'] as const, 2)) {
  describeShared(`the test suite of ${draft}`, [`data/json-schema/suite-${draft}`], (folder) => {
    it('enforces or rejects every schema', async () => {
      const found = await judge(suite(folder), draft, 4);
      expect(found.passed / (found.passed + found.refused)).toBeGreaterThan(draft === 'draft7' ? 0.85 : 0.65);
      expect(found.writable / found.valid).toBeGreaterThan(0.9);
    });
  });
}

describeShared('schemas of the real world', ['data/json-schema/maskbench-sample.jsonl.gz'], (path) => {
  it('are each enforced or rejected', async () => {
    const all = gunzipSync(readFileSync(path))
      .toString()
      .split('\n')
      .flatMap((line): Case[] => {
        try {
          const {
            path: name,
            schema,
            tests,
          } = JSON.parse(line) as { path: string; schema: unknown; tests: Case['tests'] };
          // Most name a draft without a metaschema in ajv, but only use draft 7.
          const { $schema: _, ...rest } = schema as Record<string, unknown>;
          return [{ name, schema: typeof schema === 'object' ? rest : schema, tests }];
        } catch {
          // One line of the sample is incomplete.
          return [];
        }
      });
    const cases = everyNth(all, 8);
    const found = await judge(cases, 'draft7', 1);
    expect(found.passed / cases.length).toBeGreaterThan(0.95);
    expect(found.writable / found.valid).toBeGreaterThan(0.95);
    expect(found.finished / found.passed).toBeGreaterThan(0.9);
  });
});
