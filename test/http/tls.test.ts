/** HTTPS (`--tls-cert`, `--tls-key`): the same limits as over HTTP, certificates that are renewed, tools as clients. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import { TlsFiles } from '../../src/cli/tls-files.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import { entryPath, freshDataDir, repository, startScriptedHost } from '../support/host.ts';
import { postBytes, readRaw } from '../support/raw-http.ts';
import { selfSigned } from '../support/self-signed.ts';
import { scriptedServers } from '../support/serve.ts';
import { until } from '../support/until.ts';

const scripted = scriptedServers();
const pair = selfSigned();
const closers: (() => Promise<void>)[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

async function serveTls(options: Parameters<typeof scripted>[0] = {}, headersTimeoutMs?: number) {
  const host = await scripted(options);
  const address = { host: '127.0.0.1', port: 0 };
  const guard = hostGuard('127.0.0.1', []);
  const listener = await listen(host.app, guard, address, { tls: pair, headersTimeoutMs });
  closers.push(async () => {
    listener.destroyConnections();
    await listener.close();
  });
  return { ...host, listener, port: listener.port };
}

/** Sends a GET, over an agent's connection where one is given. */
const get = (port: number, path: string, { ca = pair.cert, agent }: { ca?: string; agent?: Agent } = {}) =>
  new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, ca, agent }, (response) => {
      textOf(response).then((body) => resolve({ status: response.statusCode, body }), reject);
    });
    sent.on('error', reject).end();
  });

/** Sends bytes over TLS and returns what comes until the other side ends. */
const sendOverTls = (port: number, begin: (socket: TLSSocket) => void): Promise<string> =>
  new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', ca: pair.cert, allowHalfOpen: true };
    const socket = connectTls(options, () => begin(socket));
    textOf(socket).then(resolve, reject);
    socket.on('error', reject).on('end', () => socket.destroy());
  });

const chat = '/v1/chat/completions';
const messages = [{ role: 'user', content: 'hi' }];

describe('a listener with a certificate', () => {
  test.each([true, false])('answers a client that shuts its write side: stream %s', async (stream) => {
    const { port } = await serveTls({ answer: () => ['a', 'b', 'c'], delayMs: 30 });
    const received = await sendOverTls(port, (socket) =>
      socket.end(postBytes(chat, { messages, stream }, ['Connection: close'])),
    );
    const { status, body } = readRaw(received);
    expect(status).toBe(200);
    expect(body).toContain(stream ? 'data: [DONE]' : '"abc"');
  });

  test('notices a client that is gone, and refuses headers that are too large', async () => {
    const { port, engine } = await serveTls({ answer: () => Array<string>(1000).fill('x'), delayMs: 5 });
    const socket = connectTls({ port, host: '127.0.0.1', ca: pair.cert });
    socket.write(postBytes(chat, { messages, stream: true }));
    await until(() => engine.running === 1);
    socket.destroy();
    await until(() => engine.aborted === 1);
    const large = `GET /health HTTP/1.1\r\nHost: localhost\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`;
    expect(readRaw(await sendOverTls(port, (client) => client.write(large))).status).toBe(431);
  });

  test('closes connections that speak no TLS, or do not finish the handshake, and serves others meanwhile', async () => {
    const { port, faults } = await serveTls({}, 300);
    const closedAfter = (bytes: string) =>
      new Promise<string>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(bytes, 'latin1'));
        let received = '';
        socket.on('data', (data) => {
          received += data.toString('latin1');
        });
        socket.on('error', () => undefined).on('close', () => resolve(received));
      });
    const silent = closedAfter('');
    const unfinished = closedAfter('\x16\x03\x01\x02\x00\x01');
    expect(await closedAfter('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')).not.toContain('HTTP/1.1');
    expect(await closedAfter('\x00\xff'.repeat(500))).not.toContain('HTTP/1.1');
    expect(await get(port, '/health')).toMatchObject({ status: 200 });
    await Promise.all([silent, unfinished]);
    expect(faults).toEqual([]);
  });

  test('serves new connections with another certificate while open ones go on', async () => {
    const { port, listener } = await serveTls();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    expect(await get(port, '/health', { agent })).toMatchObject({ status: 200 });
    const next = selfSigned({ serial: 2 });
    listener.setCertificate(next);
    expect(await get(port, '/health', { agent })).toMatchObject({ status: 200 });
    agent.destroy();
    await expect(get(port, '/health')).rejects.toThrow(/self-signed|signature/);
    expect(await get(port, '/health', { ca: next.cert })).toMatchObject({ status: 200 });
  });
});

/** A folder with a version of the files, which symbolic links name, as certbot lays them out. */
function renewable(first = pair) {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-tls-'));
  folders.push(folder);
  let version = 0;
  const certPath = join(folder, 'cert.pem');
  const keyPath = join(folder, 'key.pem');
  const link = (path: string, name: string, text: string) => {
    version++;
    writeFileSync(join(folder, `${version}-${name}`), text);
    symlinkSync(`${version}-${name}`, `${path}.new`);
    renameSync(`${path}.new`, path);
  };
  const setCert = (text: string) => link(certPath, 'cert', text);
  const setKey = (text: string) => link(keyPath, 'key', text);
  setCert(first.cert);
  setKey(first.key);
  return { certPath, keyPath, setCert, setKey };
}

describe('the files of a certificate', () => {
  test('are used again when both were replaced; what cannot be used is reported once and changes nothing', async () => {
    const notices: string[] = [];
    const { setCert, setKey, ...paths } = renewable();
    const files = await TlsFiles.open({ ...paths, onNotice: (text) => notices.push(text) });
    expect(await files.reread()).toBeUndefined();
    const next = selfSigned({ serial: 2 });
    setCert(next.cert);
    expect(await files.reread()).toBeUndefined();
    expect(notices).toEqual([]);
    setKey(next.key);
    expect(await files.reread()).toEqual(next);
    expect(notices.splice(0)).toEqual([
      expect.stringMatching(/cert\.pem: the certificate was reloaded; .* until /),
    ]);
    setKey('not a key');
    for (let reads = 0; reads < 4; reads++) expect(await files.reread()).toBeUndefined();
    expect(notices.splice(0)).toEqual([
      expect.stringMatching(
        /the certificate in use stays, .*--tls-key \S+key\.pem: expected a private key in PEM/,
      ),
    ]);
    rmSync(paths.certPath);
    for (let reads = 0; reads < 3; reads++) expect(await files.reread()).toBeUndefined();
    expect(notices.splice(0)).toEqual([
      expect.stringMatching(/--tls-cert \S+cert\.pem: there is no such file/),
    ]);
    expect(files.current).toEqual(next);
    const expired = selfSigned({ until: new Date(Date.now() - 3600_000) });
    setCert(expired.cert);
    setKey(expired.key);
    expect(await files.reread()).toEqual(expired);
    expect(notices).toEqual([
      expect.stringContaining('was reloaded'),
      expect.stringMatching(/^--tls-cert \S+: the certificate expired at /),
    ]);
  });

  test.each([
    [
      'a key of another certificate',
      pair.cert,
      selfSigned().key,
      [/--tls-key \S+: the key does not belong to/],
    ],
    [
      'no PEM',
      'cert',
      'key',
      [/--tls-cert \S+: expected a certificate/, /--tls-key \S+: expected a private key/],
    ],
    [
      'key and certificate exchanged',
      pair.key,
      pair.cert,
      [/--tls-cert \S+: expected a/, /--tls-key \S+: expected a/],
    ],
  ])('are refused with every fault: %s', async (_, cert, key, faults) => {
    const { certPath, keyPath } = renewable({ cert, key });
    const opened = TlsFiles.open({ certPath, keyPath, onNotice: () => undefined });
    await expect(opened).rejects.toMatchObject({
      faults: faults.map((fault) => expect.stringMatching(fault) as unknown),
    });
  });
});

describe('the host as a process', () => {
  test('serves HTTPS, with its control socket on HTTP, to the tools and with a secure cookie', async () => {
    const { certPath, keyPath } = renewable();
    const dataDir = freshDataDir();
    const env = { LATHE_DATA_DIR: dataDir, NODE_EXTRA_CA_CERTS: certPath };
    const args = [
      '--gpu',
      '--port',
      '0',
      '--control-port',
      '0',
      '--tls-cert',
      certPath,
      '--tls-key',
      keyPath,
    ];
    const host = startScriptedHost(args, { lab: true }, env);
    const url = await host.url();
    expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    const [, control = ''] = await host.waitFor('stdout', /control at (http:\S+)\)/);
    expect((await fetch(`${control}/health`)).status).toBe(200);
    const token = readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim();
    const cookie = await new Promise<string[] | undefined>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, origin: url };
      const sent = request(
        `${url}/host/v1/session`,
        { method: 'POST', headers, ca: pair.cert },
        (response) => {
          response.resume();
          resolve(response.headers['set-cookie']);
        },
      );
      sent.on('error', reject).end();
    });
    expect(cookie).toEqual([
      expect.stringMatching(/^__Host-lathe_session_\d+=.*; Path=\/; HttpOnly; SameSite=Strict; Secure$/),
    ]);
    const run = async (tool: string, ...flags: string[]) => {
      const child = spawn(process.execPath, [entryPath(tool), ...flags, '--url', url], {
        cwd: repository,
        env: { ...process.env, ...env, LATHE_TOKEN: token },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const exit = new Promise((resolve) => child.on('close', resolve));
      const [output, errors] = await Promise.all([textOf(child.stdout), textOf(child.stderr)]);
      return [await exit, output, errors];
    };
    expect(await run('lab', 'ops')).toEqual([0, expect.stringContaining('matmul'), '']);
    expect(await run('agent', 'list')).toEqual([0, expect.any(String), '']);
    expect(await run('observe', 'surfaces')).toEqual([0, expect.stringContaining('completions'), '']);
    await host.end();
  });

  test('refuses to start with one of the two flags, or with files that it cannot use', async () => {
    for (const [args, fault] of [
      [['--tls-cert', 'c.pem'], '--tls-cert needs --tls-key'],
      [['--tls-key', 'k.pem'], '--tls-key needs --tls-cert'],
      [['--tls-cert', '/absent/c', '--tls-key', '/absent/k'], '--tls-key /absent/k: there is no such file'],
    ] as const) {
      const host = startScriptedHost(['--port', '0', ...args]);
      expect((await host.exit).code).toBe(2);
      expect(host.output.stderr).toContain(fault);
    }
  });
});
