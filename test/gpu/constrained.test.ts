import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Engine, type GenerateRequest, greedySampling, loadEngine } from '../../src/engine/index.ts';
import { type GrammarService, type GrammarSource, createGrammarService } from '../../src/grammar/index.ts';
import { testPlatform } from '../support/test-platform.ts';
import { startGrammarThread } from '../../src/platform/node-grammar.ts';
import { fixtureModel } from '../support/shared.ts';
import { validatorOf } from '../support/schema-validator.ts';
import { entryPath } from '../support/host.ts';

let engine: Engine;
let grammars: GrammarService;

beforeAll(async () => {
  engine = await loadEngine(testPlatform(), { model: fixtureModel, parallel: 4 });
  const entry = entryPath('grammar-worker');
  grammars = createGrammarService({
    tokenizer: engine.tokenizer,
    vocabSize: engine.model.vocabSize,
    startWorker: () => startGrammarThread(entry),
  });
});

afterAll(async () => {
  await grammars?.close();
  await engine?.close();
});

/** A high-temperature output, which would be noise without a grammar. */
async function answer(source: GrammarSource, seed: number, more: Partial<GenerateRequest> = {}) {
  const grammar = await grammars.compile(source);
  const prompt = engine.tokenizer.encode(
    '<|im_start|>user\nGive me data.<|im_end|>\n<|im_start|>assistant\n',
    {
      parseSpecial: true,
    },
  );
  const sampling = { ...greedySampling, temperature: 1.5, topP: 1, seed };
  const request = { prompt, maxTokens: 300, sampling, stop: [], constraint: grammar.start(), ...more };
  let text = '';
  for await (const event of engine.generate(request)) {
    if (event.type === 'text') text += event.text;
    else if (event.type === 'end') return { text, finishReason: event.finishReason };
  }
  throw new Error('an answer without an end');
}

const schemas = {
  flat: {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 12 },
      age: { type: 'integer', minimum: 0, maximum: 130 },
    },
    required: ['name', 'age'],
  },
  mark: { enum: ['red', 'green', 'blue'] },
  list: {
    type: 'array',
    items: { type: 'number', exclusiveMinimum: 0, maximum: 10 },
    minItems: 2,
    maxItems: 4,
  },
  nested: {
    type: 'object',
    properties: {
      when: { type: 'string', format: 'date' },
      tags: { type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true, minItems: 1 },
      next: {
        oneOf: [
          { type: 'null' },
          {
            type: 'object',
            properties: { id: { type: 'string', pattern: '^[a-f0-9]{4}$' } },
            required: ['id'],
          },
        ],
      },
    },
    required: ['when', 'tags', 'next'],
  },
} as const;

describe('constrained outputs of a real model', () => {
  it.each(Object.entries(schemas))('match the schema "%s" for every seed', async (_, schema) => {
    const fits = validatorOf(schema, 'draft2020-12');
    const seeds = Array.from({ length: 12 }, (__, seed) => seed);
    const answers: Awaited<ReturnType<typeof answer>>[] = [];
    for (let first = 0; first < seeds.length; first += 4) {
      const some = seeds.slice(first, first + 4);
      answers.push(...(await Promise.all(some.map((seed) => answer({ kind: 'json_schema', schema }, seed)))));
    }
    for (const { text, finishReason } of answers) {
      expect(finishReason, text).toBe('stop');
      expect(fits?.(JSON.parse(text)), text).toBe(true);
    }
    expect(new Set(answers.map(({ text }) => text)).size).toBeGreaterThan(1);
  });

  it('match a grammar, a regular expression and a choice exactly', async () => {
    for (let seed = 0; seed < 4; seed++) {
      const ebnf = await answer({ kind: 'ebnf', text: 'root ::= ("ab" | "é")+ "!"' }, seed);
      if (ebnf.finishReason === 'stop') expect(ebnf.text).toMatch(/^(ab|é)+!$/);
      expect((await answer({ kind: 'regex', pattern: '[0-9]{3}-[a-z]{2}' }, seed)).text).toMatch(
        /^[0-9]{3}-[a-z]{2}$/,
      );
      expect(['yes', 'no, thanks']).toContain(
        (await answer({ kind: 'choice', texts: ['yes', 'no, thanks'] }, seed)).text,
      );
    }
  });

  it('share steps with unconstrained outputs', async () => {
    const free = engine.generate({
      prompt: engine.tokenizer.encode('Once upon a time'),
      maxTokens: 60,
      sampling: greedySampling,
      stop: [],
    });
    const drain = (async () => {
      let ids = 0;
      for await (const event of free) if (event.type === 'text') ids += event.ids.length;
      return ids;
    })();
    const { text } = await answer({ kind: 'json_schema', schema: schemas.flat }, 5);
    expect(() => JSON.parse(text) as unknown).not.toThrow();
    expect(await drain).toBeGreaterThan(0);
  });
});
