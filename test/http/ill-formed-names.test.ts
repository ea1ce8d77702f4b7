/** A lone surrogate in an id, a name or a key is refused: two different ones would be stored as the same text. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { gatewayWorld } from '../support/gateway/world.ts';
import { ScriptedLab } from '../support/scripted-lab.ts';
import { serveScripted } from '../support/serve.ts';
import { findIllFormedNames } from '../../src/words/ill-formed-names.ts';

const lab = new ScriptedLab();
let host: Awaited<ReturnType<typeof serveScripted>>;
let gateway: Awaited<ReturnType<typeof gatewayWorld>>;
beforeAll(async () => {
  host = await serveScripted({ fim: true }, 'ready', () => lab);
  gateway = await gatewayWorld();
});
afterAll(async () => {
  await host.close();
  await gateway.close();
});

const names = ['id', 'name', 'model', 'user', 'key', 'idempotency_key', 'tool_call_id', 'prompt_cache_key'];
const bodies = [
  ...names.map((name) => [name, `{"${name}":"a\\ud800"}`]),
  ['items.0.id', '{"items":[{"id":"a\\uDfff"}]}'],
  ['item_ids.1', '{"item_ids":["a","\\ud800"]}'],
  ['labels.a\ufffd', '{"labels":{"a\\ud800":1}}'],
] as const;

test('every route of a host with a JSON body refuses it by its path', async () => {
  const routes = host.planes.flatMap((plane) => plane.routes.filter(({ body }) => body));
  expect(routes.length).toBeGreaterThan(20);
  for (const route of routes)
    for (const [path, body] of bodies) {
      const answer = await host.get(route.path.replaceAll(/\{\w+\}/g, 'x'), {
        method: route.method,
        headers: { 'content-type': 'application/json' },
        body,
      });
      const text = await answer.text();
      // Wires have their own messages; all of them name the member.
      expect([route.path, answer.status, text]).toEqual([
        route.path,
        400,
        expect.stringContaining(`${path}: `),
      ]);
      expect(text).toContain('half a surrogate pair');
    }
});

test('so does every route of a gateway', async () => {
  const { secret } = await gateway.customer();
  for (const [method, route] of [
    ['POST', '/v1/chat/completions'],
    ['POST', '/v1/responses'],
    ['POST', '/v1/messages'],
    ['POST', '/v1/completions'],
    ['POST', '/v1/embeddings'],
    ['PUT', '/v1/keys/openai'],
  ] as const)
    for (const [path, body] of bodies) {
      const answer = await fetch(gateway.url + route, {
        method,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${secret}` },
        body,
      });
      expect([route, answer.status, await answer.text()]).toEqual([
        route,
        400,
        expect.stringContaining(`${path}: `),
      ]);
    }
});

describe('other texts', () => {
  test('may contain it: it is replaced', async () => {
    const messages = [{ role: 'user', content: 'a\ud800' }];
    const answer = await host.post('/v1/chat/completions', { messages });
    expect(answer.status).toBe(200);
  });

  test('and complete pairs are valid, in names too', () => {
    const json = '{"id":"\\ud83d\\ude00","name":"😀","\\ud83d\\ude00":1}';
    expect(findIllFormedNames(json, JSON.parse(json))).toEqual([]);
  });
});

test('the check takes no memory for values that cannot contain one', () => {
  // An object per number would exhaust the heap.
  const numbers = { e: '\u{1f600}', input: Array<number>(24_000_000).fill(0) };
  expect(findIllFormedNames(String.raw`\ud83d\ude00`, numbers)).toEqual([]);
});
