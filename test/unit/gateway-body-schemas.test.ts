/** The bodies that the gateway's document describes are those that it takes. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { openapiDocument } from '../../src/gateway/serve/openapi.ts';
import type { GatewayServices } from '../../src/gateway/serve/services.ts';
import { gatewayRoutes } from '../../src/gateway/serve/routes.ts';
import { chatWire } from '../../src/wires/chat/client.ts';
import { chatBody } from '../../src/wires/chat/request-schema.ts';
import { completionsBody, readFacts as completionsFacts } from '../../src/wires/completions/facts.ts';
import { embeddingsBody, readEmbeddingsFacts } from '../../src/wires/embeddings/facts.ts';
import { messagesBody } from '../../src/wires/messages/body-schema.ts';
import { readFacts as messagesFacts } from '../../src/wires/messages/facts.ts';
import { responsesBody } from '../../src/wires/responses/body-schema.ts';
import { readFacts as responsesFacts } from '../../src/wires/responses/facts.ts';

type Body = Readonly<Record<string, unknown>>;

const model = 'm';
const messages = [{ role: 'user', content: 'Hello' }];
const badStreams: readonly Body[] = [{ stream: 'yes' }, { stream_options: [] }];
const wires: Readonly<
  Record<
    string,
    {
      readonly schema: z.ZodType;
      readonly read: (body: Body) => unknown;
      readonly base: Body;
      readonly fine: readonly Body[];
      readonly bad: readonly Body[];
    }
  >
> = {
  chat: {
    schema: chatBody,
    read(body) {
      const facts = chatWire.facts(body, JSON.stringify(body));
      return chatWire.conversation({ text: JSON.stringify(body), body, facts, header: () => undefined });
    },
    base: { model, messages },
    fine: [{ stream: null, n: 1, unknown: 1 }, { max_tokens: 1 }, { reasoning: { effort: 'low' } }],
    bad: [...badStreams, { messages: [] }, { messages: ['x'] }, { max_tokens: 0 }, { tools: {} }, { n: 2 }],
  },
  completions: {
    schema: completionsBody,
    read: completionsFacts,
    base: { model },
    fine: [
      { prompt: '' },
      { prompt: ['a', 'b'] },
      { prompt: [1, 2] },
      { prompt: [[1], 'a'] },
      { n: 128, best_of: 20, max_tokens: 0 },
    ],
    bad: [
      ...badStreams,
      { prompt: [] },
      { prompt: [1, 'a'] },
      { prompt: [-1] },
      { n: 129 },
      { best_of: 21 },
      { max_tokens: 1.5 },
    ],
  },
  embeddings: {
    schema: embeddingsBody,
    read: readEmbeddingsFacts,
    base: { model, input: 'a' },
    fine: [{ input: ['a'] }, { input: [1] }, { input: [[1], [2]] }, { encoding_format: null, dimensions: 1 }],
    bad: [
      { input: [] },
      { input: ['a', 1] },
      { input: [[]] },
      { input: [[1], 'a'] },
      { input: Array(2049).fill('a') },
      { encoding_format: 'int8' },
      { dimensions: 0 },
      { user: 1 },
    ],
  },
  messages: {
    schema: messagesBody,
    read: messagesFacts,
    base: { model, max_tokens: 0, messages },
    fine: [
      { system: 'Be kind.' },
      { system: [{ type: 'text', text: 'Be kind.' }] },
      { tools: [], thread: null },
    ],
    bad: [
      { max_tokens: -1 },
      { max_tokens: undefined },
      { messages: [] },
      { messages: [{ content: 'x' }] },
      { messages: [{ role: 'user', content: 1 }] },
      { system: 1 },
      { tools: {} },
      { tools: [1] },
      { thread: {} },
      { stream: 1 },
    ],
  },
  responses: {
    schema: responsesBody,
    read: responsesFacts,
    base: { model, input: 'a' },
    fine: [{ input: [{ role: 'user', content: 'a' }] }, { max_output_tokens: 1, previous_response_id: null }],
    bad: [
      ...badStreams,
      { input: undefined },
      { input: ['a'] },
      { max_output_tokens: 0 },
      { tools: {} },
      { background: true },
      { previous_response_id: 'r' },
      { conversation: 'c' },
      { prompt: {} },
    ],
  },
};

describe.each(Object.entries(wires))('a body of the wire %s', (_, { schema, read, base, fine, bad }) => {
  it.each([{}, ...fine])('with %j is taken', (more) => {
    const body = { ...base, ...more };
    expect(() => read(body)).not.toThrow();
    expect(schema.safeParse(body).error).toBeUndefined();
  });

  it.each([{ model: '' }, { model: undefined }, ...bad])('with %j is not', (more) => {
    const body = { ...base, ...more };
    expect(() => read(body)).toThrow();
    expect(schema.safeParse(body).success).toBe(false);
  });
});

it('every schema of the document is one, and every reference leads to one', () => {
  const { components } = openapiDocument(gatewayRoutes({} as GatewayServices, ''), '');
  const text = JSON.stringify(components.schemas).replaceAll('#/components/schemas/', '#/$defs/');
  const $defs = JSON.parse(text) as Record<string, object>;
  for (const name of Object.keys($defs))
    expect(() => new Ajv2020({ strict: false }).compile({ $ref: `#/$defs/${name}`, $defs })).not.toThrow();
  expect(Object.keys($defs).length).toBeGreaterThan(10);
});
