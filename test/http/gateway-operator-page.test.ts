/** The operator listener's page, its sessions, and the routes that it reads requests by. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operatorToken, operatorWorld, type OperatorWorld } from '../support/gateway/operator-world.ts';
import { buildHost } from '../support/host.ts';

type Json = Record<string, unknown>;
interface Listed {
  readonly data: readonly { readonly request_id: string; readonly outcome: string; readonly state: string }[];
}

let world: OperatorWorld;
let key: { readonly id: string; readonly key: string; readonly account: string };
beforeAll(async () => {
  buildHost();
  world = await operatorWorld();
  await world.call('POST', '/accounts', { name: 'team', credit_usd: '5' });
  key = await world.call('POST', '/keys', { account: 'team', label: 'ci' });
});
afterAll(() => world.close());

const get = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${world.adminUrl}${path}`, { headers });
const html = { accept: 'text/html' };

describe('the page', () => {
  it('is at / and its views, without a token, with a strict policy and without data', async () => {
    for (const path of [
      '/',
      '/keys',
      '/keys/k_1',
      '/accounts',
      '/usage',
      '/catalog',
      '/providers',
      '/receipts',
      '/changes',
    ]) {
      const page = await get(path, html);
      expect([page.status, page.headers.get('content-type')], path).toEqual([
        200,
        'text/html; charset=utf-8',
      ]);
      const policy = page.headers.get('content-security-policy') ?? '';
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self'; style-src 'self'; connect-src 'self'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|\*|nonce/);
      expect(page.headers.get('cache-control')).toBe('no-store');
      expect(page.headers.get('x-request-id')).toMatch(/^req_/);
      expect(await page.text()).not.toContain('team');
    }
  });

  it('has its scripts and styles, and nothing else of the web build', async () => {
    const text = await (await get('/', html)).text();
    const files = [...text.matchAll(/(?:src|href)="(?:\.\.?\/)*(assets\/[^"]+)"/g)].map(
      ([, file]) => `/${file}`,
    );
    expect(files.length).toBeGreaterThan(1);
    for (const file of files) expect((await get(file)).status, file).toBe(200);
    for (const path of [
      '/gateway/index.html',
      '/index.html',
      '/demo/',
      '/models/lathe-tiny-q8_0.gguf',
      '/assets/none.js',
    ])
      expect((await get(path, html)).status, path).toBe(404);
  });

  it('reads answers that neither the browser nor a proxy stores', async () => {
    for (const path of ['accounts', 'keys', 'requests', 'usage?by=account', 'status', 'session', 'nothing']) {
      const answer = await get(`/admin/v1/${path}`, { authorization: `Bearer ${operatorToken}` });
      expect([path, answer.headers.get('cache-control')]).toEqual([path, 'no-store']);
    }
  });

  it('leaves the answers of the API alone', async () => {
    expect((await get('/')).status).toBe(404);
    expect((await get('/keys')).status).toBe(404);
    expect((await fetch(`${world.adminUrl}/`, { method: 'POST', headers: html })).status).toBe(404);
    expect((await get('/metrics', html)).headers.get('content-type')).toContain('text/plain');
    expect((await get('/admin/v1/keys', html)).status).toBe(401);
    expect((await get('/nothing', html)).status).toBe(404);
  });
});

describe('a session of a browser', () => {
  const origin = () => new URL(world.adminUrl).origin;
  const start = (headers: Readonly<Record<string, string>> = {}) =>
    fetch(`${world.adminUrl}/admin/v1/session`, {
      method: 'POST',
      headers: { authorization: `Bearer ${operatorToken}`, origin: origin(), ...headers },
    });

  it('stands for the token of its operator until the browser signs out', async () => {
    const started = await start();
    expect(await started.json()).toMatchObject({ signed_in: true, by: 'admin:ada' });
    const header = started.headers.get('set-cookie') ?? '';
    expect(header).toMatch(/; Path=\/; HttpOnly; SameSite=Strict$/);
    const [cookie = ''] = header.split(';');
    const own = { cookie, 'sec-fetch-site': 'same-origin' };
    expect((await get('/admin/v1/keys', own)).status).toBe(200);
    expect(await (await get('/admin/v1/session', own)).json()).toMatchObject({ by: 'admin:ada' });
    const changed = await fetch(`${world.adminUrl}/admin/v1/keys/${key.id}`, {
      method: 'PATCH',
      headers: { ...own, origin: origin(), 'content-type': 'application/json' },
      body: JSON.stringify({ label: 'by session' }),
    });
    expect(changed.status).toBe(200);
    const { data } = await world.call<{ data: Json[] }>('GET', '/changes?limit=1');
    expect(data[0]).toMatchObject({ actor: 'admin:ada', action: 'key update' });
    // Pages of other ports are the same site: browsers send them the cookie.
    for (const site of ['same-site', 'cross-site'])
      expect((await get('/admin/v1/keys', { cookie, 'sec-fetch-site': site })).status, site).toBe(403);
    const ended = await fetch(`${world.adminUrl}/admin/v1/session`, {
      method: 'DELETE',
      headers: { ...own, origin: origin() },
    });
    expect(await ended.json()).toMatchObject({ signed_in: false });
    expect((await get('/admin/v1/keys', own)).status).toBe(401);
  });

  it('is not started without a token, with a wrong one, or by a page of another origin', async () => {
    expect((await start({ authorization: '' })).status).toBe(401);
    expect((await start({ authorization: 'Bearer wrong-token-of-nobody-at-all' })).status).toBe(401);
    expect((await start({ origin: 'http://127.0.0.1:1' })).status).toBe(403);
    expect(await (await get('/admin/v1/session')).json()).toMatchObject({ signed_in: false, by: null });
  });
});

describe('requests of all keys', () => {
  it('are listed the newest first, by page, and found by account, key, failure and time', async () => {
    const { call, ask, provider } = world;
    const other = await call<{ id: string; key: string }>('POST', '/keys', { account: 'team' });
    const asked = [];
    for (let at = 0; at < 5; at++) asked.push(await ask(at === 2 ? other.key : key.key, 'gpt-5-mini'));
    provider.script([{ status: 400 }]);
    const failed = await ask(key.key, 'gpt-5-mini');
    provider.script([{ say: { text: 'Yes.' } }]);
    const refused = await ask(key.key, 'claude-sonnet', 'x'.repeat(10));
    const ids = async (query: string) =>
      (await call<Listed>('GET', `/requests${query}`)).data.map(({ request_id: id }) => id);
    const all = await ids('');
    expect(all.slice(0, 2)).toEqual([refused.requestId, failed.requestId]);
    expect(all).toHaveLength(7);
    const [first, second] = [await ids('?limit=3'), await ids(`?limit=3&before=${all[2]}`)];
    expect([...first, ...second]).toEqual(all.slice(0, 6));
    expect(await ids(`?key=${other.id}`)).toEqual([asked[2]?.requestId]);
    expect(await ids('?account=team&limit=1000')).toEqual(all);
    const { data } = await call<Listed>('GET', '/requests?failed=true');
    expect(data).toMatchObject([{ request_id: failed.requestId, outcome: 'failed', state: 'released' }]);
    expect(await ids(`?since=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual([]);
    await expect(ids('?before=req_none')).rejects.toThrow(/404 .*unknown_request/);
    await expect(ids('?account=nobody')).rejects.toThrow(/404 .*unknown_account/);
    await expect(ids('?limit=0&since=soon&failed=maybe')).rejects.toThrow(
      /400 .*failed: expected true or false.*since: expected a time.*limit: expected a whole number from 1 to 1000/,
    );
    await expect(ids('?kee=1')).rejects.toThrow(/400/);
  });

  it('one has its hold while it runs, then its receipt and its entries, which add up to zero', async () => {
    const { call, ask, provider } = world;
    const gate = Promise.withResolvers<void>();
    const say = { text: 'Late, but whole.', usage: { input: 1000, output: 100 } };
    provider.script([{ say, hold: (frame) => (frame < 2 ? undefined : gate.promise) }]);
    const response = await fetch(`${world.gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'gpt-5-mini',
        stream: true,
        max_tokens: 200,
        messages: [{ role: 'user', content: 'Hello' }],
      }),
    });
    const id = response.headers.get('x-svc-request-id') ?? '';
    const running = await call('GET', `/requests/${id}`);
    expect(running).toMatchObject({
      state: 'running',
      key: key.id,
      provider: 'openai',
      hold: { amount_nanodollars: expect.any(Number) },
      cost_nanodollars: null,
      receipt: null,
      entries: [],
    });
    gate.resolve();
    await response.text();
    const record = await call<Json & { entries: { amount_nanodollars: number }[] }>('GET', `/requests/${id}`);
    expect(record).toMatchObject({
      request_id: id,
      state: 'settled',
      key: key.id,
      hold: { amount_nanodollars: expect.any(Number), placed_at: expect.any(String) },
      cost_nanodollars: 450_000,
      overrun_nanodollars: 0,
      receipt: { request_id: id, outcome: 'completed', cost_nanousd: 450_000 },
    });
    expect(record.entries.map(({ amount_nanodollars: amount }) => amount)).toEqual([-450_000, 450_000]);
    provider.script([{ status: 400 }]);
    const failed = await call('GET', `/requests/${(await ask(key.key, 'gpt-5-mini')).requestId}`);
    expect(failed).toMatchObject({ state: 'released', entries: [], receipt: { cost_nanousd: 0 } });
    await expect(call('GET', '/requests/req_none')).rejects.toThrow(/404 .*There is no request 'req_none'/);
    expect((await get(`/admin/v1/requests/${id}`)).status).toBe(401);
    expect((await get('/admin/v1/requests')).status).toBe(401);
  });
});
