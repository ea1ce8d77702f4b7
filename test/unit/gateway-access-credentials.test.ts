import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Credentials } from '../../src/gateway/access/credentials.ts';
import { GatewayStore } from '../../src/gateway/store/index.ts';
import { vettedStatus } from '../../src/gateway/upstream/vetted-status.ts';
import { AddressRefusedError } from '../../src/gateway/upstream/address-vetting.ts';
import { describeDatabases, freshSqlite } from '../support/databases.ts';
import { AccessWorld, byok, plantedKey as key, masterKey, refusalOf } from '../support/gateway/access.ts';

const resource = 'https://ours.openai.azure.com';

describeDatabases("providers' credentials", (url) => {
  const worlds: AccessWorld[] = [];
  const masters = [masterKey('mk_1')];
  const open = async () => {
    const world = await AccessWorld.open(await url());
    worlds.push(world);
    return { world, credentials: world.credentials(masters) };
  };
  afterEach(async () => {
    for (const world of worlds.splice(0)) await world.store.close();
  });
  const put = (credentials: Credentials, provider: string, body: unknown, account = 'a_1') =>
    credentials.put(account, provider, body);

  it('are stored, listed without the secret, found, and removed', async () => {
    const { world, credentials } = await open();
    expect(await credentials.list('a_1')).toEqual([]);
    await put(credentials, 'openai', { api_key: key, extra: 1 });
    await put(credentials, 'azure', { api_key: 'azure-key-of-ours-1234', base_url: `${resource}/` });
    await put(credentials, 'openai', { api_key: 'somebody-elses-key' }, 'a_2');
    const created_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/) as string;
    expect(await credentials.list('a_1')).toEqual([
      { provider: 'azure', status: 'active', last4: '1234', base_url: resource, created_at },
      { provider: 'openai', status: 'active', last4: 'cD5e', created_at },
    ]);
    expect(await credentials.find('a_1', 'openai')).toEqual({
      provider: 'openai',
      apiKey: key,
      baseUrl: undefined,
    });
    expect(await credentials.find('a_1', 'azure')).toEqual({
      provider: 'azure',
      apiKey: 'azure-key-of-ours-1234',
      baseUrl: resource,
    });
    expect(await credentials.find('a_1', 'google')).toBeUndefined();
    expect(await credentials.find('a_3', 'openai')).toBeUndefined();
    expect(await credentials.remove('a_1', 'openai')).toBe(true);
    expect(await credentials.remove('a_1', 'openai')).toBe(false);
    expect(await credentials.find('a_1', 'openai')).toBeUndefined();
    expect((await credentials.find('a_2', 'openai'))?.apiKey).toBe('somebody-elses-key');
    expect(
      (await world.rows())
        .map((row) => [row.account_id, row.provider])
        .sort((a, b) => (String(a) < String(b) ? -1 : 1)),
    ).toEqual([
      ['a_1', 'azure'],
      ['a_2', 'openai'],
    ]);
  });

  it('are not readable in the database', async () => {
    const { world, credentials } = await open();
    await put(credentials, 'openai', { api_key: key });
    await credentials.register('a_1', 'vllm:lab', {
      apiKey: `${key}-2`,
      baseUrl: 'http://127.0.0.1:8000/v1',
    });
    const before = await world.dump();
    expect(before).toContain('gateway_credentials');
    expect(before).toContain('vllm:lab');
    await credentials.remove('a_1', 'openai');
    for (const dump of [before, await world.dump()]) {
      for (const secret of [key, key.slice(0, 8), key.slice(-8), key.slice(12, 20)]) {
        expect(dump).not.toContain(secret);
        for (const encoding of ['base64', 'hex'] as const)
          expect(dump).not.toContain(Buffer.from(secret).toString(encoding).slice(0, 10));
      }
      for (const master of masters)
        for (const encoding of ['base64', 'hex', 'latin1'] as const)
          expect(dump).not.toContain(master.key.toString(encoding));
    }
  });

  it('are replaced as a whole, as a new record', async () => {
    const { world, credentials } = await open();
    await put(credentials, 'openai', { api_key: key });
    const [before] = await world.rows();
    await credentials.markRejected('a_1', 'openai');
    await put(credentials, 'openai', { api_key: 'a-new-key-for-us-7777' });
    const after = await world.rows();
    expect(after).toHaveLength(1);
    expect(after[0]?.id).not.toBe(before?.id);
    expect(after[0]).toMatchObject({ status: 'active', last4: '7777' });
    expect((await credentials.find('a_1', 'openai'))?.apiKey).toBe('a-new-key-for-us-7777');
  });

  it('show no characters of a short key', async () => {
    const { credentials } = await open();
    const shown = [];
    for (const apiKey of ['k', 'elevenchars', 'twelve-chars']) {
      await put(credentials, 'openai', { api_key: apiKey });
      shown.push((await credentials.list('a_1'))[0]?.last4);
    }
    expect(shown).toEqual(['', '', 'hars']);
  });

  describe('are verified with the provider', () => {
    it.each([
      ['openai', 'https://api.openai.test/v1/models', 'house', { authorization: `Bearer ${key}` }],
      ['hosts', 'http://10.0.0.1:8080/v1/models', 'house', { authorization: `Bearer ${key}` }],
      [
        'anthropic',
        'https://api.anthropic.test/v1/models',
        'house',
        { 'x-api-key': key, 'anthropic-version': '2023-06-01' },
      ],
      ['google', 'https://google.test/v1beta/models', 'house', { 'x-goog-api-key': key }],
      ['azure', `${resource}/openai/v1/models`, 'public', { 'api-key': key }],
    ])('%s', async (provider, at, mode, headers) => {
      const { world, credentials } = await open();
      await put(credentials, provider, {
        api_key: key,
        ...(provider === 'azure' ? { base_url: resource } : {}),
      });
      expect(world.probeCalls).toHaveLength(1);
      const [probed, options] = world.probeCalls[0] ?? [];
      expect([probed, options?.mode, options?.name]).toEqual([at, mode, provider]);
      expect(options?.headers).toMatchObject(headers);
      const secrets = Object.values(options?.headers ?? {}).filter((value) => value.includes(key));
      expect(secrets).toHaveLength(1);
      if (provider === 'azure') expect(options?.hostSuffixes).toEqual(byok.at(-1)?.hostSuffixes);
    });

    it.each([
      ['openai', 401],
      ['openai', 403],
      ['anthropic', 401],
      ['google', 400],
      ['google', 403],
    ])('%s says %i: 422, and nothing is stored or changed', async (provider, status) => {
      const { world, credentials } = await open();
      world.answer = status;
      const refusal = await refusalOf(put(credentials, provider, { api_key: key }));
      expect(refusal).toMatchObject({
        status: 422,
        type: 'upstream_error',
        code: 'credential_rejected',
        param: 'api_key',
      });
      expect(refusal.message).toContain(`${provider} rejects this key (status ${status})`);
      expect(await world.rows()).toEqual([]);
      world.answer = 200;
      await put(credentials, provider, { api_key: 'the-one-before-1111' });
      const before = await world.rows();
      world.answer = status;
      await refusalOf(put(credentials, provider, { api_key: key }));
      expect(await world.rows()).toEqual(before);
      expect((await credentials.find('a_1', provider))?.apiKey).toBe('the-one-before-1111');
    });

    it.each([302, 400, 404, 429, 500, 529, new Error(`connect ECONNREFUSED with ${key}`)])(
      '%s: it could not be asked, and nothing is stored',
      async (answer) => {
        const { world, credentials } = await open();
        world.answer = answer;
        const own = await refusalOf(put(credentials, 'openai', { api_key: key }));
        expect(own).toMatchObject({ status: 502, type: 'upstream_error', code: 'credential_unverified' });
        expect(own.message).toMatch(/could not be verified.*Nothing was stored/);
        const cloud = await refusalOf(put(credentials, 'azure', { api_key: key, base_url: resource }));
        expect(cloud).toMatchObject({ status: 422, code: 'credential_unverified', param: 'base_url' });
        expect(await world.rows()).toEqual([]);
      },
    );

    it('an address that is not allowed is reported to the author of the URL', async () => {
      const { world, credentials } = await open();
      world.answer = new AddressRefusedError('Its host has an address that is not on the public internet.');
      const refusal = await refusalOf(put(credentials, 'azure', { api_key: key, base_url: resource }));
      expect(refusal).toMatchObject({
        status: 422,
        message: expect.stringContaining('not on the public internet'),
      });
    });
  });

  describe('are refused before the provider is contacted', () => {
    it.each([
      [undefined, ['']],
      [null, ['']],
      ['text', ['']],
      [[key], ['']],
      [{}, ['api_key']],
      [{ api_key: '' }, ['api_key']],
      [{ api_key: 12 }, ['api_key']],
      [{ api_key: null }, ['api_key']],
      [{ api_key: `${key}\r\nx-evil: 1` }, ['api_key']],
      [{ api_key: `${key} ` }, ['api_key']],
      [{ api_key: `${key}ü` }, ['api_key']],
      [{ api_key: key.repeat(300) }, ['api_key']],
      [{ api_key: key, base_url: 'https://evil.test' }, ['base_url']],
      [{ api_key: ['x'], base_url: resource }, ['api_key', 'base_url']],
    ])('%#: all that is wrong at once', async (body, paths) => {
      const { world, credentials } = await open();
      const refusal = await refusalOf(put(credentials, 'openai', body));
      expect(refusal).toMatchObject({ status: 400, type: 'invalid_request_error' });
      expect((refusal.violations as { path: string }[]).map(({ path }) => path)).toEqual(paths);
      expect(world.probeCalls).toEqual([]);
    });

    it.each([
      undefined,
      '',
      7,
      'ours.openai.azure.com',
      'http://ours.openai.azure.com',
      'https://evil.test',
      'https://evil.test/?x=.openai.azure.com',
      'https://openai.azure.com',
      'https://.openai.azure.com',
      'https://ours.openai.azure.com.evil.test',
      'https://ours.openai.azure.com.',
      'https://evilopenai.azure.com',
      'https://ours.openai.azure.com@evil.test',
      'https://user:secret@ours.openai.azure.com',
      'https://ours.openai.azure.com:8443',
      'https://ours.openai.azure.com/other',
      'https://ours.openai.azure.com/?x=1',
      'https://ours.openai.azure.com/#x',
      'https://169.254.169.254/.openai.azure.com',
      'https://0x7f000001',
      `${resource}/${'x'.repeat(3000)}`,
      'file:///etc/passwd',
    ])('a resource at %s', async (base_url) => {
      const { world, credentials } = await open();
      const refusal = await refusalOf(put(credentials, 'azure', { base_url }));
      expect((refusal.violations as { path: string }[]).map(({ path }) => path)).toEqual([
        'api_key',
        'base_url',
      ]);
      expect(world.probeCalls).toEqual([]);
    });

    it.each([
      resource,
      `${resource}/`,
      `${resource}/openai/v1`,
      `${resource}/openai/v1/`,
      'HTTPS://Ours.OpenAI.Azure.com:443',
    ])('but not one at %s, which all are the same', async (base_url) => {
      const { world, credentials } = await open();
      await put(credentials, 'azure', { api_key: key, base_url });
      expect(world.probeCalls[0]?.[0]).toBe(`${resource}/openai/v1/models`);
      expect((await credentials.find('a_1', 'azure'))?.baseUrl).toBe(resource);
    });

    it('a provider that is not known, with those that are', async () => {
      const { credentials } = await open();
      expect(await refusalOf(put(credentials, 'antropic', { api_key: key }))).toMatchObject({
        status: 404,
        type: 'invalid_request_error',
        code: 'provider_not_found',
        param: 'provider',
        message:
          "There is no provider of that name (did you mean 'anthropic'?). Credentials can be stored for anthropic, azure, google, hosts, openai.",
      });
      for (const name of ['vllm:lab', '__proto__', 'constructor', ''])
        expect((await refusalOf(put(credentials, name, { api_key: key }))).status).toBe(404);
    });

    it('any provider, when none is configured', async () => {
      const { world } = await open();
      const refusal = await refusalOf(put(world.credentials(masters, []), 'openai', { api_key: key }));
      expect(refusal).toMatchObject({ status: 404, message: expect.stringContaining('[byok.<provider>]') });
    });

    it('without a master key, with the setting that is missing', async () => {
      const { world } = await open();
      const credentials = world.credentials([]);
      const refusal = await refusalOf(put(credentials, 'openai', { api_key: key }));
      expect(refusal).toMatchObject({ status: 503, type: 'server_error', code: 'master_key_missing' });
      expect(refusal.message).toMatch(/master_key_env or master_key_file in \[secrets\] of gateway\.toml/);
      const registering = credentials.register('a_1', 'vllm:lab', {
        apiKey: key,
        baseUrl: 'https://x.test/v1',
      });
      expect((await refusalOf(registering)).code).toBe('master_key_missing');
      expect((await refusalOf(credentials.rotate())).code).toBe('master_key_missing');
      expect(world.probeCalls).toEqual([]);
      // An endpoint without a key works.
      await credentials.register('a_1', 'vllm:lab', { baseUrl: 'https://x.test/v1' });
      expect(await credentials.list('a_1')).toHaveLength(1);
    });
  });

  describe('of endpoints from the command line', () => {
    it('are stored with any base URL, without verification', async () => {
      const { world, credentials } = await open();
      await credentials.register('a_1', 'vllm:lab', { apiKey: key, baseUrl: 'http://192.168.1.5:8000/v1/' });
      await credentials.register('a_1', 'llama-cpp:mine', { baseUrl: 'https://models.test' });
      expect(world.probeCalls).toEqual([]);
      expect(await credentials.find('a_1', 'vllm:lab')).toEqual({
        provider: 'vllm:lab',
        apiKey: key,
        baseUrl: 'http://192.168.1.5:8000/v1',
      });
      expect(await credentials.find('a_1', 'llama-cpp:mine')).toEqual({
        provider: 'llama-cpp:mine',
        apiKey: '',
        baseUrl: 'https://models.test',
      });
      expect(await credentials.list('a_1')).toMatchObject([
        { provider: 'llama-cpp:mine', last4: '', base_url: 'https://models.test' },
        { provider: 'vllm:lab', last4: 'cD5e', base_url: 'http://192.168.1.5:8000/v1' },
      ]);
      expect(await credentials.remove('a_1', 'vllm:lab')).toBe(true);
    });

    it.each([
      ['openai', {}],
      ['vllm:', {}],
      ['Vllm:lab', {}],
      ['vllm:lab/x', {}],
      ['vllm:lab', { apiKey: '' }],
      ['vllm:lab', { apiKey: 'a b' }],
      ['vllm:lab', { baseUrl: 'http://8.8.8.8/v1' }],
      ['vllm:lab', { baseUrl: 'http://169.254.169.254/' }],
      ['vllm:lab', { baseUrl: 'https://user:pass@x.test' }],
      ['vllm:lab', { baseUrl: 'https://x.test?a=b' }],
      ['vllm:lab', { baseUrl: 'ftp://x.test' }],
      ['vllm:lab', { baseUrl: 'x.test' }],
    ])('%s with %j is refused', async (name, given) => {
      const { world, credentials } = await open();
      const registering = credentials.register('a_1', name, { baseUrl: 'https://x.test/v1', ...given });
      expect((await refusalOf(registering)).status).toBe(400);
      expect(await world.rows()).toEqual([]);
    });
  });

  describe('that a provider rejects later', () => {
    it('are marked and still found, so that no other credential is used instead', async () => {
      const { credentials } = await open();
      await put(credentials, 'openai', { api_key: key });
      await credentials.markRejected('a_1', 'openai', key);
      expect(await credentials.list('a_1')).toMatchObject([{ status: 'rejected' }]);
      expect((await credentials.find('a_1', 'openai'))?.apiKey).toBe(key);
      await credentials.markRejected('a_1', 'google');
      await credentials.markRejected('a_2', 'openai');
    });

    it('unless another credential was stored meanwhile', async () => {
      const { credentials } = await open();
      await put(credentials, 'openai', { api_key: 'the-new-one-of-ours' });
      await credentials.markRejected('a_1', 'openai', key);
      expect(await credentials.list('a_1')).toMatchObject([{ status: 'active' }]);
    });
  });

  describe('are cached', () => {
    it('for five seconds, including the absence of a credential', async () => {
      const { world, credentials } = await open();
      const elsewhere = world.credentials(masters);
      expect(await credentials.find('a_1', 'openai')).toBeUndefined();
      await put(elsewhere, 'openai', { api_key: key });
      expect(await credentials.find('a_1', 'openai')).toBeUndefined();
      world.clock.pass(5000);
      expect((await credentials.find('a_1', 'openai'))?.apiKey).toBe(key);
      await elsewhere.remove('a_1', 'openai');
      expect((await credentials.find('a_1', 'openai'))?.apiKey).toBe(key);
      world.clock.pass(5000);
      expect(await credentials.find('a_1', 'openai')).toBeUndefined();
    });

    it('but not if they are replaced while they are read', async () => {
      const { world, credentials } = await open();
      await put(credentials, 'openai', { api_key: key });
      const read = world.store.read.bind(world.store);
      world.store.read = async (work) => {
        const result = await read(work);
        world.store.read = read;
        await put(credentials, 'openai', { api_key: 'the-new-one-of-ours' });
        return result;
      };
      await credentials.find('a_1', 'openai');
      expect((await credentials.find('a_1', 'openai'))?.apiKey).toBe('the-new-one-of-ours');
    });
  });

  describe('that were tampered with in the database cannot be decrypted', () => {
    it('in any authenticated column', async () => {
      const { world, credentials } = await open();
      await put(credentials, 'azure', { api_key: key, base_url: resource });
      await put(credentials, 'azure', { api_key: 'another-key-of-another', base_url: resource }, 'a_2');
      const rows = await world.rows();
      const row = rows.find((one) => one.account_id === 'a_1');
      const other = rows.find((one) => one.account_id === 'a_2');
      if (!row || !other) throw new Error('both are there');
      const changes = {
        id: 'c_0000000000000000',
        mode: 'registered' as const,
        base_url: 'https://evil.test',
        last4: 'xxxx',
        alg: 'none' as const,
        kek_id: 'mk_9',
        wrapped_key: other.wrapped_key,
        iv: other.iv,
        tag: other.tag,
        ciphertext: other.ciphertext,
      };
      for (const [column, value] of Object.entries(changes)) {
        await world.change(row.id, { [column]: value });
        const refusal = await refusalOf(world.credentials(masters).find('a_1', 'azure'));
        expect([column, refusal.status, refusal.code]).toEqual([column, 500, 'credential_unreadable']);
        expect(refusal.message).toContain('PUT /v1/keys/azure');
        await world.change(column === 'id' ? value : row.id, {
          [column]: row[column as keyof typeof row],
        });
        expect((await world.credentials(masters).find('a_1', 'azure'))?.apiKey).toBe(key);
      }
    });

    it('nor in another account or for another provider, moved as a whole or in part', async () => {
      const { world, credentials } = await open();
      await put(credentials, 'openai', { api_key: key });
      await put(credentials, 'google', { api_key: 'the-key-for-google' });
      await put(credentials, 'openai', { api_key: 'the-key-of-another' }, 'a_2');
      const before = await world.rows();
      const of = (account: string, provider: string) => {
        const row = before.find((one) => one.account_id === account && one.provider === provider);
        if (!row) throw new Error('it is there');
        return row;
      };
      // The victim's whole record under the thief's name.
      await world.change(of('a_2', 'openai').id, { account_id: 'a_3' });
      await world.change(of('a_1', 'openai').id, { account_id: 'a_2' });
      expect((await refusalOf(world.credentials(masters).find('a_2', 'openai'))).code).toBe(
        'credential_unreadable',
      );
      await world.change(of('a_1', 'openai').id, { account_id: 'a_1', provider: 'azure' });
      expect((await refusalOf(world.credentials(masters).find('a_1', 'azure'))).code).toBe(
        'credential_unreadable',
      );
      // Only its envelope.
      const { alg, kek_id, wrapped_key, iv, tag, ciphertext } = of('a_1', 'openai');
      await world.change(of('a_1', 'google').id, { alg, kek_id, wrapped_key, iv, tag, ciphertext });
      expect((await refusalOf(world.credentials(masters).find('a_1', 'google'))).code).toBe(
        'credential_unreadable',
      );
    });
  });
});

describe('verification with a real provider', () => {
  let server: Server | undefined;
  afterEach(() => {
    server?.closeAllConnections();
    server?.close();
  });

  it('depends on the key only, and the provider response is not passed on', async () => {
    server = createServer((request, response) => {
      const fits = request.url === '/v1/models' && request.headers.authorization === `Bearer ${key}`;
      response.writeHead(fits ? 200 : 401, { location: '/v1/elsewhere' });
      response.end(`Incorrect API key provided: ${request.headers.authorization}`);
    });
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const store = await GatewayStore.open({ url: freshSqlite(), replicaId: 'one' });
    const providers = byok.map((one) =>
      one.id === 'openai' ? { ...one, baseUrl: `http://127.0.0.1:${port}/v1` } : one,
    );
    const credentials = new Credentials({
      store,
      byok: providers,
      masterKeys: [masterKey('mk_1')],
      probe: vettedStatus,
    });
    const refused = await refusalOf(credentials.put('a_1', 'openai', { api_key: `${key}x` }));
    expect(refused).toMatchObject({ status: 422, code: 'credential_rejected' });
    expect(await credentials.list('a_1')).toEqual([]);
    await credentials.put('a_1', 'openai', { api_key: key });
    expect(await credentials.list('a_1')).toMatchObject([{ provider: 'openai', last4: 'cD5e' }]);
    server.closeAllConnections();
    server.close();
    const gone = await refusalOf(credentials.put('a_1', 'openai', { api_key: key }));
    expect(gone).toMatchObject({ status: 502, code: 'credential_unverified' });
    await store.close();
  });
});
