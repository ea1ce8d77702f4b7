import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ResolveHost } from '../../src/addresses/resolve.ts';
import type { ByokProvider } from '../../src/gateway/config/types.ts';
import { UndiciTransport } from '../../src/gateway/upstream/transport.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { vettedStatus } from '../../src/gateway/upstream/vetted-status.ts';
import { AddressRefusedError } from '../../src/gateway/upstream/address-vetting.ts';
import { aCandidate, aSending, ownCandidate } from '../support/gateway/candidates.ts';
import { serve } from '../support/local-server.ts';

const azure: ByokProvider = {
  id: 'azure',
  wire: 'openai-chat',
  baseUrl: undefined,
  hostSuffixes: ['.openai.azure.com'],
  basePath: '/openai/v1',
};
const openai: ByokProvider = {
  id: 'openai',
  wire: 'openai-chat',
  baseUrl: 'http://127.0.0.1:1/v1',
  hostSuffixes: [],
  basePath: '',
};

const closing: (() => Promise<unknown>)[] = [];
/** What reached a machine of the local network. */
let reached: string[] = [];
let localUrl = '';
let port = 0;
beforeEach(async () => {
  reached = [];
  const server = await serve((request, response) => {
    reached.push(`${request.headers.host} ${request.url} ${JSON.stringify(request.headers)}`);
    response.writeHead(request.url?.includes('redirect') ? 302 : 200, { location: '/elsewhere' });
    response.end('a secret of the local network');
  });
  localUrl = server.url;
  port = Number(new URL(localUrl).port);
  closing.push(() => server.close());
});
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

/** Answers in turn, the last one again and again. */
function answering(...answers: readonly (readonly string[])[]): {
  resolve: ResolveHost;
  resolvedHosts: string[];
} {
  const resolvedHosts: string[] = [];
  return {
    resolvedHosts,
    resolve: async (host) => {
      const addresses = answers[Math.min(resolvedHosts.length, answers.length - 1)] ?? [];
      resolvedHosts.push(host);
      return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    },
  };
}
function transport(resolve: ResolveHost) {
  const way = new UndiciTransport({ byok: [azure, openai], resolve, limits: { connectMs: 60_000 } });
  closing.push(() => way.close());
  return way;
}
async function failure(promise: Promise<unknown>): Promise<UpstreamFailure> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UpstreamFailure);
  return error as UpstreamFailure;
}
const refusal = { isRetryable: false, isUnhealthy: false, error: { status: 502, code: 'upstream_failed' } };

/** Nothing may be sent there; they are spelled as resolvers answer. */
const inside = [
  '127.0.0.1',
  '0.0.0.0',
  '10.0.0.1',
  '172.16.0.1',
  '192.168.0.1',
  '100.64.0.1',
  '169.254.169.254',
  '168.63.129.16',
  '224.0.0.1',
  '::1',
  '::',
  'fe80::1',
  'fd00:ec2::254',
  '::ffff:127.0.0.1',
  '::ffff:169.254.169.254',
  '64:ff9b::7f00:1',
  '2002:7f00:1::',
];

describe('a cloud resource of a caller', () => {
  const candidate = ownCandidate('azure', 'https://mine.openai.azure.com/');

  it.each(inside)('gets no request when its name resolves to %s', async (address) => {
    for (const addresses of [[address], ['1.1.1.1', address], [address, '1.1.1.1']]) {
      const { resolve, resolvedHosts } = answering(addresses);
      const refused = await failure(transport(resolve).send(aSending(candidate)));
      expect(refused).toMatchObject(refusal);
      expect(refused.error.message).not.toContain(address);
      expect(resolvedHosts).toEqual(['mine.openai.azure.com']);
    }
    expect(reached).toEqual([]);
  });

  it('gets no request when its name has no address', async () => {
    expect(await failure(transport(answering([]).resolve).send(aSending(candidate)))).toMatchObject(refusal);
  });

  it('must be one', async () => {
    const { resolve, resolvedHosts } = answering(['1.1.1.1']);
    for (const url of [
      localUrl,
      `https://127.0.0.1:${port}`,
      'https://evil.example',
      'http://mine.openai.azure.com',
      'https://mine.openai.azure.com:8443',
      'https://sk-user:sk-secret@mine.openai.azure.com',
    ]) {
      const refused = await failure(transport(resolve).send(aSending(ownCandidate('azure', url))));
      expect(refused, url).toMatchObject(refusal);
      expect(refused.error.message).not.toMatch(/sk-|evil/);
    }
    // A provider with a fixed URL accepts no URL from a caller, and an unknown provider does not either.
    for (const provider of ['openai', 'unknown'])
      expect(
        await failure(
          transport(resolve).send(aSending(ownCandidate(provider, 'https://x.openai.azure.com'))),
        ),
      ).toMatchObject(refusal);
    expect(resolvedHosts).toEqual([]);
    expect(reached).toEqual([]);
  });
});

describe('a registered endpoint', () => {
  const at = (host: string, scheme = 'http') =>
    aSending(ownCandidate('ollama:box', `${scheme}://${host}:${port}/v1`));

  it('is used on this machine and in private networks over plain http', async () => {
    for (const host of ['127.0.0.1', '0x7f.1', '2130706433', 'box.lan']) {
      const reply = await transport(answering(['127.0.0.1']).resolve).send(at(host));
      expect(await reply.text()).toBe('a secret of the local network');
    }
    expect(reached).toHaveLength(4);
    expect(reached[3]).toContain(`box.lan:${port} /v1/chat/completions`);
    expect(reached[3]).toContain('"authorization":"Bearer sk-own"');
  });

  it.each([
    '1.1.1.1',
    '169.254.169.254',
    '100.100.100.200',
    '0.0.0.0',
    '::ffff:127.0.0.1',
    'fd00:ec2::254',
    'fe80::1',
  ])('gets no request over plain http at %s', async (address) => {
    for (const addresses of [[address], ['127.0.0.1', address]])
      expect(await failure(transport(answering(addresses).resolve).send(at('box.lan')))).toMatchObject(
        refusal,
      );
    const literal = address.includes(':') ? `[${address}]` : address;
    expect(await failure(transport(answering().resolve).send(at(literal)))).toMatchObject(refusal);
    expect(reached).toEqual([]);
  });

  it.each(inside)('gets no request over https at %s', async (address) => {
    expect(await failure(transport(answering([address]).resolve).send(at('box.lan', 'https')))).toMatchObject(
      refusal,
    );
  });
});

describe('DNS rebinding', () => {
  it('has no effect: each connection goes to the addresses that were checked for it', async () => {
    // The check sees this machine, which is allowed. A second lookup would return the metadata address.
    const { resolve, resolvedHosts } = answering(['127.0.0.1'], ['169.254.169.254']);
    const way = transport(resolve);
    const candidate = ownCandidate('ollama:box', `http://box.lan:${port}/v1`);
    expect((await way.send(aSending(candidate))).status).toBe(200);
    expect(resolvedHosts).toEqual(['box.lan']);
    // The next connection resolves and checks again.
    expect(await failure(way.send(aSending(candidate)))).toMatchObject(refusal);
    expect(resolvedHosts).toEqual(['box.lan', 'box.lan']);
    expect(reached).toHaveLength(1);
  });

  it('cannot use a pooled connection of another address mode to reach internal hosts', async () => {
    const { resolve, resolvedHosts } = answering(['127.0.0.1'], ['1.1.1.1']);
    const way = transport(resolve);
    // The operator's own connection to the same host and port stays open.
    await (await way.send(aSending(aCandidate(`http://box.lan:${port}/v1`)))).text();
    expect(
      await failure(way.send(aSending(ownCandidate('ollama:box', `http://box.lan:${port}/v1`)))),
    ).toMatchObject(refusal);
    expect(resolvedHosts).toHaveLength(2);
  });
});

describe("the operator's providers", () => {
  it('may have any address, also with a caller credential', async () => {
    const { resolve } = answering(['127.0.0.1']);
    const url = `http://box.lan:${port}/v1`;
    const way = new UndiciTransport({ byok: [{ ...openai, baseUrl: url }], resolve });
    closing.push(() => way.close());
    for (const candidate of [aCandidate(url), ownCandidate('openai')])
      expect(await (await way.send(aSending(candidate))).text()).toBe('a secret of the local network');
    expect(reached[1]).toContain('"authorization":"Bearer sk-own"');
  });
});

describe('vettedGet', () => {
  const get = (
    url: string,
    mode: 'house' | 'public' | 'registered',
    resolve?: ResolveHost,
    timeoutMs = 60_000,
  ) =>
    vettedStatus(url, {
      mode,
      name: 'acme',
      headers: { authorization: 'Bearer sk-own' },
      hostSuffixes: ['.openai.azure.com'],
      timeoutMs,
      ...(resolve ? { resolve } : {}),
    });

  it('returns the status and reads no body', async () => {
    expect(await get(`${localUrl}/v1/models?limit=1`, 'house')).toEqual({ status: 200 });
    expect(reached[0]).toContain('/v1/models?limit=1');
    expect(reached[0]).toContain('"authorization":"Bearer sk-own"');
    expect(
      await get(`http://box.lan:${port}/v1/models`, 'registered', answering(['127.0.0.1']).resolve),
    ).toEqual({ status: 200 });
  });

  it('follows no redirect', async () => {
    expect(await get(`${localUrl}/redirect`, 'house')).toEqual({ status: 302 });
    expect(reached).toHaveLength(1);
  });

  it('connects to no forbidden address', async () => {
    for (const [url, mode, addresses] of [
      ['https://mine.openai.azure.com/openai/v1/models', 'public', ['127.0.0.1']],
      ['https://mine.openai.azure.com/openai/v1/models', 'public', ['1.1.1.1', '10.0.0.1']],
      [`${localUrl}/models`, 'public', []],
      [`https://127.0.0.1:${port}/models`, 'registered', []],
      [`http://box.lan:${port}/models`, 'registered', ['8.8.8.8']],
      ['nowhere', 'house', []],
    ] as const)
      await expect(get(url, mode, answering([...addresses]).resolve), url).rejects.toBeInstanceOf(
        AddressRefusedError,
      );
    expect(reached).toEqual([]);
  });

  it('has a time limit, and does not wait for a body', async () => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
      socket.once('data', (bytes) => {
        if (bytes.toString().startsWith('GET /endless'))
          socket.write(`HTTP/1.1 401 Unauthorized\r\ncontent-length: 100\r\n\r\n${'x'.repeat(50)}`);
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(async () => server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await get(`${url}/endless`, 'house')).toEqual({ status: 401 });
    const late = await failure(get(`${url}/silent`, 'house', undefined, 300));
    expect(late.error).toMatchObject({ status: 504, code: 'upstream_timeout' });
    await expect.poll(() => sockets.size).toBe(0);
    const gone = await failure(get('http://127.0.0.1:1/', 'house'));
    expect(gone.error).toMatchObject({ status: 502, code: 'upstream_failed' });
  });
});
