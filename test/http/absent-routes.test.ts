/**
 * Routes of public APIs that are not served answer so, even where the parameter of another route would match their
 * path.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { gatewayWorld } from '../support/gateway/world.ts';
import { serveScripted } from '../support/serve.ts';

/**
 * Routes of OpenAI, Anthropic, Ollama and llama.cpp in positions where a host or a gateway may have a parameter.
 */
const publicRoutes = `
POST /v1/responses
POST /v1/responses/compact
POST /v1/responses/input_tokens
GET /v1/responses/resp_1/input_items
POST /v1/responses/resp_1/cancel
GET /v1/chat/completions/chatcmpl-1
POST /v1/chat/completions/chatcmpl-1
DELETE /v1/chat/completions/chatcmpl-1
GET /v1/chat/completions/chatcmpl-1/messages
POST /v1/conversations
POST /v1/moderations
POST /v1/batches
GET /v1/batches
GET /v1/files
POST /v1/files
POST /v1/audio/transcriptions
POST /v1/audio/speech
POST /v1/images/generations
GET /v1/fine_tuning/jobs
POST /v1/messages/count_tokens
GET /v1/messages/batches
POST /v1/messages/batches
GET /v1/messages/batches/msgbatch_1
DELETE /v1/messages/batches/msgbatch_1
POST /v1/messages/batches/msgbatch_1/cancel
GET /v1/messages/batches/msgbatch_1/results
POST /v1/complete
POST /models/load
POST /models/unload
POST /slots/0
GET /lora-adapters
POST /lora-adapters
POST /api/web_search
POST /api/web_fetch
GET /api/status
POST /api/chat
`
  .trim()
  .split('\n')
  .map((line) => line.split(' ') as [method: string, path: string]);

let host: Awaited<ReturnType<typeof serveScripted>>;
let gateway: Awaited<ReturnType<typeof gatewayWorld>>;
beforeAll(async () => {
  host = await serveScripted();
  gateway = await gatewayWorld();
});
afterAll(async () => {
  await host.close();
  await gateway.close();
});

describe.each(['host', 'gateway'] as const)('at the %s', (which) => {
  const served = async (): Promise<Set<string>> => {
    const response = await fetch(`${which === 'host' ? host.url : gateway.url}/openapi.json`);
    const { paths } = (await response.json()) as { paths: Record<string, object> };
    const ours = (verbs: object, path: string) =>
      Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`);
    return new Set(Object.entries(paths).flatMap(([path, verbs]) => ours(verbs, path)));
  };

  /** The host serves it, with a 404 of its own. */
  const isHostRoute = ([, path]: (typeof publicRoutes)[number]) =>
    which === 'host' && path.startsWith('/v1/responses/resp_1/');

  test.each(publicRoutes.filter((route) => !isHostRoute(route)))(
    '%s %s is served, or a 404 names it',
    async (method, path) => {
      const response = await fetch((which === 'host' ? host.url : gateway.url) + path, { method });
      const text = await response.text();
      if ((await served()).has(`${method} ${path}`)) return expect([404, 405]).not.toContain(response.status);
      expect([response.status, text]).toEqual([404, expect.stringContaining(path)]);
      expect(text).not.toMatch(/did you mean/i);
    },
  );
});

test('the 404 states the reason where a parameter would have matched', async () => {
  for (const path of ['/models/load', '/v1/models/unload']) {
    const response = await host.post(path, {});
    expect([path, response.status]).toEqual([path, 404]);
    expect(await response.text()).toContain(`There is no POST ${path}: `);
  }
  const stored = await host.get('/v1/responses/compact');
  expect(await stored.text()).toContain("There is no response 'compact'");
});
