import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { isPublic } from '../../src/addresses/address-ranges.ts';
import type { ResolveHost } from '../../src/addresses/resolve.ts';
import { toolWorlds } from '../support/agent-tools.ts';

const newWorld = toolWorlds();
const servers: (net.Server | http.Server)[] = [];
const sockets = new Set<net.Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function listening(server: net.Server | http.Server): Promise<number> {
  servers.push(server);
  server.on('connection', (socket: net.Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
const serve = (handle: http.RequestListener) => listening(http.createServer(handle));

const limits = { timeoutMs: 120_000, maxWireBytes: 200_000, maxBytes: 10_000, maxRedirects: 3 };

/** @param grants of the network */
async function getter(
  grants: readonly string[],
  resolve?: ResolveHost,
  changed: Partial<typeof limits> = {},
) {
  const world = await newWorld({ fetchLimits: { ...limits, ...changed }, ...(resolve ? { resolve } : {}) });
  return (url: string, signal?: AbortSignal) =>
    world.run('http_get', { url }, world.context({ network: [...grants] }, signal));
}

describe('isPublic', () => {
  it.each(
    `0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 100.100.100.200 127.0.0.1 127.255.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.168.1.1 198.18.0.1 203.0.113.9 224.0.0.1 240.0.0.1 255.255.255.255 168.63.129.16 :: ::1 ::ffff:8.8.8.8 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: 2001::1 2001:db8::1 fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 100::1 fec0::1 3fff::1 5f00::1 localhost 1.2.3 0x7f.1 `.split(
      ' ',
    ),
  )('%s is not', (address) => {
    expect(isPublic(address)).toBe(false);
  });
  it.each([
    '8.8.8.8',
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '192.169.0.1',
    '2606:4700::1111',
    '2a00:1450::1',
  ])('%s is', (address) => {
    expect(isPublic(address)).toBe(true);
  });
});

describe('http_get', () => {
  it('fetches a text from an address that a grant names', async () => {
    const port = await serve((request, response) => {
      response.setHeader('content-type', 'text/plain; charset=iso-8859-1');
      response.end(Buffer.from([0x67, 0xfc, 0x6e, 0x20, ...Buffer.from(request.method ?? '')]));
    });
    for (const grant of ['127.0.0.1', `127.0.0.1:${port}`]) {
      const get = await getter([grant]);
      expect(await get(`http://127.0.0.1:${port}/x#part`)).toEqual({
        ok: true,
        output: `HTTP 200 OK\nurl: http://127.0.0.1:${port}/x\ntype: text/plain; charset=iso-8859-1\n\ngün GET`,
        truncated: false,
      });
      // Other spellings are the same address to the parser, and so to us.
      expect((await get(`http://2130706433:${port}/`)).ok).toBe(true);
      expect((await get(`http://0x7f.1:${port}/`)).ok).toBe(true);
    }
    const local = await getter([`localhost:${port}`]);
    expect((await local(`http://localhost:${port}/`)).ok).toBe(true);
    expect((await local(`http://LOCALHOST.:${port}/`)).ok).toBe(true);
    expect((await local(`http://127.0.0.1:${port}/`)).ok).toBe(false);
  });

  it('refuses hosts that no grant names', async () => {
    let calls = 0;
    const port = await serve((_, response) => {
      calls += 1;
      response.end('reached');
    });
    const named: ResolveHost = async () => [{ address: '127.0.0.1', family: 4 }];
    for (const [grants, url] of [
      [[], `http://127.0.0.1:${port}/`],
      [['*'], `http://127.0.0.1:${port}/`],
      [['*'], `http://localhost:${port}/`],
      [['*'], `http://[::ffff:127.0.0.1]:${port}/`],
      [['*'], `http://house.example:${port}/`],
      [['localhost:1'], `http://localhost:${port}/`],
      [['127.0.0.1:1'], `http://127.0.0.1:${port}/`],
      [['127.0.0.1'], `http://[::1]:${port}/`],
      [['example.com'], `http://sub.example.com:${port}/`],
      [['*.example.com'], `http://example.com:${port}/`],
      [['*.example.com'], `http://badexample.com:${port}/`],
      [['*.example.com'], `http://x.example.com:${port}/`],
      [['*.0.0.1'], `http://127.0.0.1:${port}/`],
      [['evil.localhost'], `http://evil.localhost.example:${port}/`],
    ] as const) {
      const get = await getter(grants, named);
      expect((await get(url)).ok, `${grants.join()} ${url}`).toBe(false);
    }
    expect(calls).toBe(0);
  });

  it('refuses anything but plain http and https URLs', async () => {
    const get = await getter(['*', '127.0.0.1']);
    for (const [url, why] of [
      ['file:///etc/passwd', 'only http and https'],
      ['ftp://127.0.0.1/', 'only http and https'],
      ['data:text/plain,x', 'only http and https'],
      ['http://user:secret@127.0.0.1/', 'user name or a password'],
      ['http://user@127.0.0.1/', 'user name or a password'],
      ['nowhere', 'expected an absolute URL'],
      ['http://', 'expected an absolute URL'],
      ['http://a b/', 'expected an absolute URL'],
    ] as const) {
      const answer = await get(url);
      expect(answer).toMatchObject({ ok: false, output: expect.stringContaining(why) });
      expect(answer.output).not.toContain('secret@');
    }
  });

  it('connects to the checked address, even if the name resolves differently later', async () => {
    const port = await serve((_, response) => response.end('the local network'));
    let calls = 0;
    const rebinding: ResolveHost = async () => {
      calls += 1;
      return [{ address: calls === 1 ? '192.0.2.1' : '127.0.0.1', family: 4 }];
    };
    const get = await getter(['rebind.example'], rebinding);
    expect((await get(`http://rebind.example:${port}/`)).ok).toBe(false);
    expect(calls).toBe(1);
  });

  it.skipIf(process.platform !== 'linux')('uses only the given resolver', async () => {
    const server = http.createServer((request, response) => response.end(request.headers.host));
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.2', resolve));
    const { port } = server.address() as AddressInfo;
    let calls = 0;
    const get = await getter(['localhost'], async () => {
      calls += 1;
      return [{ address: '127.0.0.2', family: 4 }];
    });
    // The system's own answer, 127.0.0.1, has no such server.
    expect((await get(`http://localhost:${port}/`)).output).toMatch(new RegExp(`\n\nlocalhost:${port}$`));
    expect(calls).toBe(1);
  });

  it('refuses a name if one of its addresses is not public', async () => {
    const port = await serve((_, response) => response.end('the local network'));
    const mixed: ResolveHost = async () => [
      { address: '8.8.8.8', family: 4 },
      { address: '::1', family: 6 },
    ];
    const get = await getter(['mixed.example'], mixed);
    expect(await get(`http://mixed.example:${port}/`)).toMatchObject({
      ok: false,
      output: expect.stringContaining('not on the public internet'),
    });
    const none = await getter(['none.example'], async () => []);
    expect((await none('http://none.example/')).ok).toBe(false);
    const broken = await getter(['gone.example'], async () => {
      throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    });
    expect((await broken('http://gone.example/')).output).toBe(
      'http://gone.example/ cannot be fetched: ENOTFOUND.',
    );
  });

  it('checks every redirect again', async () => {
    let reached = 0;
    const inner = await serve((_, response) => {
      reached += 1;
      response.end('inside');
    });
    const places = [
      `http://127.0.0.1:${inner}/`,
      `http://[::ffff:7f00:1]:${inner}/`,
      `//127.0.0.1:${inner}/`,
    ];
    places.push(
      'file:///etc/passwd',
      `http://user:x@localhost:${inner}/`,
      'http://169.254.169.254/',
      'http://[',
    );
    const outer = await serve((request, response) => {
      response.writeHead(302, { location: places[Number(request.url?.slice(1))] }).end();
    });
    const get = await getter([`127.0.0.1:${outer}`]);
    for (const index of places.keys())
      expect((await get(`http://127.0.0.1:${outer}/${index}`)).ok).toBe(false);
    expect(reached).toBe(0);
    const both = await getter([`127.0.0.1:${outer}`, `127.0.0.1:${inner}`]);
    expect(await both(`http://127.0.0.1:${outer}/0`)).toMatchObject({
      ok: true,
      output: `HTTP 200 OK\nurl: http://127.0.0.1:${inner}/\n\ninside`,
    });
    const circle = await serve((_, response) => response.writeHead(301, { location: '/again' }).end());
    expect((await (await getter(['127.0.0.1']))(`http://127.0.0.1:${circle}/`)).output).toContain(
      'redirects more than 3 times',
    );
  });

  it('decompresses responses, and keeps only the beginning of a decompression bomb', async () => {
    const bomb = gzipSync(Buffer.alloc(100 * 1024 * 1024, 'x'));
    const bodies: Record<string, [string, Buffer]> = {
      '/gzip': ['gzip', gzipSync('packed')],
      '/br': ['br', brotliCompressSync('packed')],
      '/bomb': ['gzip', bomb],
      '/twice': ['gzip, gzip', gzipSync(gzipSync('x'))],
      '/lie': ['gzip', Buffer.from('not packed')],
      '/cut': ['gzip', gzipSync('packed').subarray(0, 12)],
      // Packs of nothing, one after the other.
      '/empty': ['gzip', Buffer.concat(Array.from({ length: 20_000 }, () => gzipSync('')))],
    };
    const port = await serve((request, response) => {
      const [coding, body] = bodies[request.url ?? ''] ?? ['identity', Buffer.alloc(0)];
      response.writeHead(200, { 'content-encoding': coding, 'content-type': 'text/plain' }).end(body);
    });
    const get = await getter(['127.0.0.1']);
    const url = `http://127.0.0.1:${port}`;
    for (const path of ['/gzip', '/br']) expect((await get(url + path)).output).toMatch(/\n\npacked$/);
    const answer = await get(`${url}/bomb`);
    expect(answer).toMatchObject({ ok: true, truncated: true });
    expect(answer.output.length).toBeLessThan(11_000);
    for (const [path, why] of [
      ['/twice', "packed as 'gzip, gzip'"],
      ['/lie', 'cannot be unpacked'],
      ['/cut', 'cannot be unpacked'],
      ['/empty', 'unpacks to little'],
    ] as const)
      expect(await get(url + path)).toMatchObject({ ok: false, output: expect.stringContaining(why) });
  });

  it('accepts only texts in known charsets, and cuts long ones', async () => {
    const types: Record<string, [string, string | Buffer]> = {
      '/png': ['image/png', 'x'],
      '/nul': ['text/plain', 'a\0b'],
      '/klingon': ['text/plain; charset=klingon', 'x'],
      '/json': ['application/problem+json; charset="utf-8"', '{}'],
      '/utf16': ['text/plain; charset=utf-16le', Buffer.from('text', 'utf16le')],
      '/long': ['text/html', 'é'.repeat(50_000)],
    };
    const port = await serve((request, response) => {
      const [type, body] = types[request.url ?? ''] ?? ['text/plain', ''];
      response.writeHead(request.url === '/json' ? 404 : 200, { 'content-type': type }).end(body);
    });
    const get = async (path: string) => (await getter(['127.0.0.1']))(`http://127.0.0.1:${port}${path}`);
    expect((await get('/png')).output).toBe('The answer is image/png, not text.');
    expect((await get('/nul')).output).toBe('The answer is binary, not text.');
    expect((await get('/klingon')).output).toContain('charset klingon');
    expect(await get('/json')).toMatchObject({
      ok: false,
      output: expect.stringMatching(/^HTTP 404 [^]*\n\n\{\}$/),
    });
    expect((await get('/utf16')).output).toMatch(/\n\ntext$/);
    const long = await get('/long');
    expect(long.truncated).toBe(true);
    expect(long.output).toMatch(/\n\né+\n\[only the beginning\]$/);
  });

  it('fails for servers that are too slow, never answer or disconnect', async () => {
    const drip = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      const timer = setInterval(() => response.write('.'), 20);
      response.on('close', () => clearInterval(timer));
    });
    const silent = await listening(net.createServer(() => undefined));
    const headers = await listening(
      net.createServer((socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const timer = setInterval(() => socket.write('x-a: b\r\n'), 5);
        socket.on('close', () => clearInterval(timer)).on('error', () => undefined);
      }),
    );
    const get = await getter(['127.0.0.1'], undefined, { timeoutMs: 300 });
    for (const port of [drip, silent, headers])
      expect((await get(`http://127.0.0.1:${port}/`)).ok, String(port)).toBe(false);
    const broken = await serve((_, response) => {
      response.writeHead(200, { 'content-length': '100', 'content-encoding': 'gzip' });
      response.write(gzipSync('half'), () => response.destroy());
    });
    expect((await get(`http://127.0.0.1:${broken}/`)).ok).toBe(false);
    const slowName = await getter(['slow.example'], () => new Promise(() => undefined), { timeoutMs: 100 });
    expect((await slowName('http://slow.example/')).output).toContain('did not answer whole within 0.1 s');
    const stopping = new AbortController();
    const patient = await getter(['127.0.0.1']);
    const waiting = patient(`http://127.0.0.1:${silent}/`, stopping.signal);
    stopping.abort(new Error('stopped'));
    await expect(waiting).rejects.toThrow('stopped');
  });
});
