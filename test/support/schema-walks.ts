import { expect } from 'vitest';
import { type ByteGrammars, seeded } from './grammar-walks.ts';
import { validatorOf } from './schema-validator.ts';

/** Random answers all fit the schema; fails with schema and text. @returns how many came to an end */
export async function expectValid(
  grammars: ByteGrammars,
  schema: unknown,
  walks: number,
  seed = 1,
): Promise<number> {
  const fits = validatorOf(schema, 'draft2020-12') ?? validatorOf(schema, 'draft7');
  const grammar = await grammars.compile({ kind: 'json_schema', schema });
  const random = seeded(seed);
  let done = 0;
  try {
    for (let walk = 0; walk < walks; walk++) {
      const text = await grammar.walk(random);
      if (text === undefined) continue;
      done++;
      const where = `${JSON.stringify(schema)} let ${text} through`;
      expect(() => JSON.parse(text) as unknown, where).not.toThrow();
      if (fits) expect(fits(JSON.parse(text)), where).toBe(true);
    }
  } finally {
    grammar.dispose();
  }
  return done;
}
