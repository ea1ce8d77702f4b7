import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { GrammarError } from '../../src/grammar/types.ts';
import { ByteGrammars } from '../support/grammar-walks.ts';
import { expectValid } from '../support/schema-walks.ts';
import { rounds } from '../support/tier.ts';

let grammars: ByteGrammars;
beforeAll(async () => {
  grammars = await ByteGrammars.open();
});

/** Schemas with random combinations of all supported keywords. */
const { schema: anySchema } = fc.letrec<{ schema: unknown }>((tie) => {
  const inner = tie('schema');
  const name = fc.constantFrom('a', 'b', 'ab');
  const value = fc.constantFrom<unknown>('a', 'b', '', 0, 1, 2.5, -3, null, true, [1], { a: 1 });
  const small = fc.nat(3);
  const one = fc.oneof(
    { maxDepth: 3 },
    fc.record({
      type: fc.constantFrom(
        'string',
        'integer',
        'number',
        'boolean',
        'null',
        'array',
        'object',
        ['string', 'null'],
        ['integer', 'array'],
      ),
    }),
    fc.record({ enum: fc.array(value, { minLength: 1, maxLength: 3 }) }),
    fc.record({ minimum: fc.integer({ min: -20, max: 20 }) }),
    fc.record({ exclusiveMaximum: fc.constantFrom(-0.5, 3, 7.25, 100) }),
    fc.record({ multipleOf: fc.constantFrom(1, 2, 7, 10, 0.5) }),
    fc.record({ minLength: small }),
    fc.record({ maxLength: small }),
    fc.record({ pattern: fc.constantFrom('^a', 'b$', '[0-9]', '^[ab]*$', '.') }),
    fc.record({ required: fc.uniqueArray(name, { minLength: 1 }) }),
    fc.record({ maxProperties: small }),
    fc.record({ minProperties: fc.nat(1) }),
    fc.record({ minItems: small }),
    fc.record({ maxItems: small }),
    fc.record({ properties: fc.dictionary(name, inner, { maxKeys: 2 }) }),
    fc.record({
      properties: fc.dictionary(name, inner, { maxKeys: 2 }),
      additionalProperties: fc.oneof(fc.boolean(), inner),
    }),
    fc.record({ patternProperties: fc.dictionary(fc.constantFrom('^a', 'b'), inner, { maxKeys: 2 }) }),
    fc.record({ propertyNames: fc.record({ maxLength: small }) }),
    fc.record({ items: inner }),
    fc.record({ prefixItems: fc.array(inner, { minLength: 1, maxLength: 2 }) }),
    fc.record({ contains: inner }),
    fc.record({ not: inner }),
    fc.record({ allOf: fc.array(inner, { minLength: 1, maxLength: 2 }) }),
    fc.record({ anyOf: fc.array(inner, { minLength: 1, maxLength: 3 }) }),
    fc.record({ oneOf: fc.array(inner, { minLength: 1, maxLength: 3 }) }),
    // oxlint-disable-next-line no-thenable -- the keyword
    fc.record({ if: inner, then: inner, else: inner }),
    fc.record({ dependentRequired: fc.dictionary(name, fc.array(name, { maxLength: 1 }), { maxKeys: 1 }) }),
    fc.record({ dependentSchemas: fc.dictionary(name, inner, { maxKeys: 1 }) }),
  );
  return {
    schema: fc
      .array(one, { minLength: 1, maxLength: 3 })
      .map((parts) => Object.assign({}, ...parts) as unknown),
  };
});

describe('random schemas', () => {
  it('are enforced or rejected, and enforced ones give only valid values', async () => {
    let kept = 0;
    await fc.assert(
      fc.asyncProperty(anySchema, fc.nat(), async (schema, seed) => {
        try {
          kept += (await expectValid(grammars, schema, 4, seed)) > 0 ? 1 : 0;
        } catch (error) {
          if (!(error instanceof GrammarError)) throw error;
        }
      }),
      { numRuns: rounds(250, 100) },
    );
    expect(kept).toBeGreaterThan(rounds(100, 40));
  });
});
