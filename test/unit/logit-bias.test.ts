import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { lenientBias, logitBias, strictBias } from '../../src/wires/core/logit-bias.ts';

describe('the published schema of logit_bias', () => {
  test.each([
    ['strict', strictBias, [{ a: 1 }, { 5: 101 }, [[5, -101]]]],
    ['lenient', lenientBias, []],
  ] as const)('accepts what is accepted (%s)', (_, rules, strictOnly) => {
    const schema = logitBias(rules);
    const published = new Ajv2020().compile(z.toJSONSchema(schema, { io: 'input' }));
    const isAccepted = (value: unknown) => schema.safeParse(value).success;
    const accepted = [null, [], {}, [[5, 1.5]], [['a', -1]], [[5, false]], { 5: 1 }, { 123456789: false }];
    const refused = [
      7,
      'a',
      true,
      [5],
      [[5]],
      [[5, 1, 1]],
      [[5, true]],
      [[5, '1']],
      [[-1, 1]],
      [[1.5, 1]],
      [[null, 1]],
    ];
    const refusedObjects = [{ 5: true }, { 5: 'a' }, { 5: null }];
    for (const value of accepted)
      expect([value, published(value), isAccepted(value)]).toEqual([value, true, true]);
    for (const value of [...refused, ...refusedObjects, ...strictOnly])
      expect([value, published(value), isAccepted(value)]).toEqual([value, false, false]);
    for (const value of [{ a: 1 }, { 5: 101 }, [[5, -101]]]) expect(published(value)).toBe(isAccepted(value));
  });
});
