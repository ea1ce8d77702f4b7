import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { readEvents, serveScripted } from '../support/serve.ts';
import { sharedPath } from '../support/shared.ts';

type Json = Record<string, unknown>;
const file = sharedPath('data/openapi/openai.json');

/** The published document says `nullable` where its own version (3.1) wants a union with null. */
function withoutNullable(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withoutNullable);
  if (typeof node !== 'object' || node === null) return node;
  const { nullable, ...rest } = node as Json;
  const plain = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [
      key,
      key === '$ref' ? String(value).replace('#/components/schemas/', '#/$defs/') : withoutNullable(value),
    ]),
  );
  // Only `$ref` counts where it stands; its neighbours are prose.
  const schema = typeof plain['$ref'] === 'string' ? { $ref: plain['$ref'] } : plain;
  return nullable === true ? { anyOf: [schema, { type: 'null' }] } : schema;
}

describe.skipIf(file === undefined)("OpenAI's published schemas (skipped where ../shared is absent)", () => {
  let host: Awaited<ReturnType<typeof serveScripted>>;
  let published: (name: string) => z.ZodType;
  beforeAll(async () => {
    host = await serveScripted();
    const document = JSON.parse(readFileSync(file ?? '', 'utf8')) as { components: { schemas: Json } };
    const all = document.components.schemas;
    published = (name) => {
      const needed = new Map<string, unknown>();
      const add = (each: string) => {
        if (needed.has(each)) return;
        needed.set(each, withoutNullable(all[each]));
        for (const [, inner] of JSON.stringify(needed.get(each)).matchAll(/"#\/\$defs\/([^"]+)"/g))
          add(inner ?? '');
      };
      add(name);
      return z.fromJSONSchema({ $ref: `#/$defs/${name}`, $defs: Object.fromEntries(needed) } as never);
    };
  });
  afterAll(async () => {
    await host.close();
  });
  const chat = { messages: [{ role: 'user', content: 'hi' }] };

  test('accept every body that we send', async () => {
    const { get, post } = host;
    for (const [name, response] of [
      ['CreateChatCompletionResponse', await post('/v1/chat/completions', chat)],
      ['CreateCompletionResponse', await post('/v1/completions', { prompt: ['a', 'b'], echo: true })],
      ['ListModelsResponse', await get('/v1/models')],
      ['Model', await get('/v1/models/scripted')],
      ['ErrorResponse', await post('/v1/chat/completions', { messages: [] })],
      ['ErrorResponse', await get('/v1/nothing')],
    ] as const) {
      const result = published(name).safeParse(await response.json());
      expect(result.error?.issues ?? []).toEqual([]);
    }
  });

  test.each([false, true])('accept every chunk that we send (include_usage: %s)', async (include_usage) => {
    const { post } = host;
    for (const [name, path, body] of [
      ['CreateChatCompletionStreamResponse', '/v1/chat/completions', chat],
      ['CreateCompletionResponse', '/v1/completions', { prompt: 'a' }],
    ] as const) {
      const frames = await readEvents(
        await post(path, { ...body, stream: true, stream_options: { include_usage } }),
      );
      for (const frame of frames.slice(0, -1)) {
        const chunk = JSON.parse(frame) as Json;
        // The legacy schema is also the chunk's, but has no nulls where chunks have them.
        if (name === 'CreateCompletionResponse') {
          if (chunk['usage'] === null) delete chunk['usage'];
          for (const choice of chunk['choices'] as Json[]) choice['finish_reason'] ??= 'stop';
        }
        expect(published(name).safeParse(chunk).error?.issues ?? []).toEqual([]);
      }
    }
  });

  test('accept embeddings, and what we refuse of them', async () => {
    const embeds = await serveScripted({ embeds: 4 });
    for (const [name, body] of [
      ['CreateEmbeddingResponse', { input: ['a', 'b'] }],
      ['ErrorResponse', { input: [] }],
    ] as const) {
      const response = await embeds.post('/v1/embeddings', body);
      expect(published(name).safeParse(await response.json()).error?.issues ?? []).toEqual([]);
    }
    await embeds.close();
  });

  test('would notice a missing member', async () => {
    const { post } = host;
    const body = (await (await post('/v1/chat/completions', chat)).json()) as { choices: Json[] };
    delete body.choices[0]?.['logprobs'];
    expect(published('CreateChatCompletionResponse').safeParse(body).success).toBe(false);
  });
});
