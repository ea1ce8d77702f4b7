/** A caller's credential that no configured master key opens: what the caller and the operator see. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Credentials } from '../../src/gateway/access/credentials.ts';
import { ownKey, servedGateway } from '../support/gateway/served.ts';

let served: Awaited<ReturnType<typeof servedGateway>>;
beforeAll(async () => {
  served = await servedGateway();
});
afterAll(() => served.close());

it('is an internal error, and the log names the record', async () => {
  const { accountId, secret: key } = await served.customer();
  const others = new Credentials({
    store: served.books.store,
    byok: [],
    masterKeys: [{ id: 'mk_of_another_gateway', key: Buffer.alloc(32, 99) }],
    probe: () => Promise.resolve({ status: 200 }),
  });
  await others.register(accountId, 'vllm:lab', { apiKey: ownKey, baseUrl: `${served.provider.url}/v1` });
  const body = { model: 'vllm:lab/m', messages: [{ role: 'user', content: 'x' }] };
  const answer = await served.ask('/v1/chat/completions', { key, body });
  expect(answer.status).toBe(500);
  expect(answer.json.error).toMatchObject({ code: 'credential_unreadable' });
  expect(answer.json.error.message).toContain('ask for the endpoint to be added again');
  const { stderr } = served.child.output;
  expect(stderr).toContain(answer.headers.get('x-svc-request-id'));
  expect(stderr).toContain("encrypted with the master key 'mk_of_another_gateway', which is not configured");
  expect(stderr).not.toContain(ownKey);
});
