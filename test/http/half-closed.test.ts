/** Clients that close their write side after a whole request, as `nc` and `shutdown(SHUT_WR)` do. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { gatewayWorld } from '../support/gateway/world.ts';
import { postBytes, readRaw, sendAndShut } from '../support/raw-http.ts';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
const chat = '/v1/chat/completions';
const messages = [{ role: 'user', content: 'Hello' }];
const until = (condition: () => boolean) => expect.poll(condition).toBe(true);

describe('a host', () => {
  test.each([
    ['in one piece', false],
    ['as a stream', true],
  ])('answers %s, even after a while', async (_, stream) => {
    const { port } = await serve({ answer: () => Array<string>(40).fill('x'), delayMs: 30 });
    const received = await sendAndShut(port, postBytes(chat, { messages, stream }));
    const { line, headers, body } = readRaw(received);
    expect(line).toBe('HTTP/1.1 200 OK');
    expect(headers.get('x-request-id')).toMatch(/^req_/);
    if (stream) expect(body).toContain('data: [DONE]');
    else expect(JSON.parse(body)).toMatchObject({ choices: [{ message: { content: 'x'.repeat(40) } }] });
    expect(received.match(/HTTP\/1\.1 /g)).toHaveLength(1);
  });

  test('streams with gaps are valid for clients', async () => {
    const { port } = await serve({ answer: () => Array<string>(6).fill('x'), delayMs: 200 });
    const body = JSON.stringify({ messages, stream: true });
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const outgoing = request({ port, path: chat, method: 'POST', headers, agent: false });
    outgoing.end(body, () => outgoing.socket?.end());
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    let text = '';
    for await (const part of response.setEncoding('utf8')) text += String(part);
    expect(text.match(/"content":"x"/g)).toHaveLength(6);
    expect(text.trimEnd().split('\n').at(-1)).toBe('data: [DONE]');
  });

  test('answers immediate responses, refusals and several requests', async () => {
    const { port } = await serve();
    const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
    expect(readRaw(await sendAndShut(port, get('/health'))).line).toBe('HTTP/1.1 200 OK');
    expect(readRaw(await sendAndShut(port, get('/nowhere'))).line).toBe('HTTP/1.1 404 Not Found');
    expect(readRaw(await sendAndShut(port, 'GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n')).status).toBe(
      200,
    );
    const many = await sendAndShut(port, get('/health') + postBytes(chat, { messages }) + get('/v1/models'));
    expect(many.match(/HTTP\/1\.1 \d+/g)).toEqual(Array(3).fill('HTTP/1.1 200'));
    const cut = await sendAndShut(port, postBytes(chat, { messages }).slice(0, -3));
    expect(readRaw(cut).status).toBe(400);
    expect(readRaw(cut).headers.get('x-request-id')).toMatch(/^req_/);
  });

  test.each([
    ['before the first byte of its answer', 0],
    ['in the middle of a stream', 1],
  ])('detects that the client is gone and not only silent, %s', async (_, parts) => {
    const { port, engine } = await serve({ answer: () => Array<string>(1_000_000).fill('x'), delayMs: 20 });
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.write(postBytes(chat, { messages, stream: parts > 0 }));
    if (parts > 0) await new Promise((resolve) => socket.once('data', resolve));
    await until(() => engine.running === 1);
    socket.end();
    await new Promise((resolve) => socket.once('finish', resolve));
    const before = engine.produced;
    await until(() => engine.produced > before + 5);
    expect(engine.aborted).toBe(0);
    socket.destroy();
    await until(() => engine.running === 0);
    expect(engine.aborted).toBe(1);
  });
});

describe('pipelined requests', () => {
  const stream = postBytes(chat, { messages, stream: true });

  test('a client that is gone is detected with several requests too', async () => {
    const { port, engine } = await serve({ answer: () => Array<string>(1_000_000).fill('x'), delayMs: 20 });
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const buffered = postBytes(chat, { messages });
    socket.write(buffered + buffered);
    await until(() => engine.running === 2);
    socket.destroy();
    await until(() => engine.running === 0);
  });

  test('invalid data after a request does not get into the response in progress', async () => {
    const { port } = await serve({ answer: () => Array<string>(1_000_000).fill('x'), delayMs: 5 });
    const socket = connect({ port, host: '127.0.0.1' }).setEncoding('utf8');
    let received = '';
    socket.on('data', (text: string) => (received += text));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(stream);
    await until(() => received.includes('data: '));
    socket.write(`${stream}no HTTP at all\r\n\r\n`);
    await closed;
    expect(received.match(/HTTP\/1\.1 /g)).toHaveLength(1);
  });

  test('the second response is complete where the first one ended before', async () => {
    const { port } = await serve({ answer: () => Array<string>(20).fill('x'), delayMs: 20 });
    const get = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n';
    const received = await sendAndShut(port, get + stream);
    expect(received.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2);
    expect(received).toContain('data: [DONE]');
  });
});

describe('a gateway', () => {
  let gateway: Awaited<ReturnType<typeof gatewayWorld>>;
  beforeAll(async () => {
    gateway = await gatewayWorld();
  });
  afterAll(() => gateway.close());

  test.each([
    ['in one piece', false],
    ['as a stream', true],
  ])('answers %s, even after a while, and bills it', async (_, stream) => {
    gateway.provider.script(async () => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return { say: { text: 'Hello there.', usage: { input: 3, output: 2 } } };
    });
    const { secret } = await gateway.customer();
    const port = Number(new URL(gateway.url).port);
    const outgoing = postBytes(chat, { model: 'chat', messages, stream }, [
      `Authorization: Bearer ${secret}`,
    ]);
    const received = await sendAndShut(port, outgoing);
    const { line, headers, body } = readRaw(received);
    expect(line).toBe('HTTP/1.1 200 OK');
    expect(headers.get('x-request-id')).toMatch(/^req_/);
    expect(body).toContain('Hello');
    if (stream) expect(body).toContain('data: [DONE]');
    const row = (await gateway.witness.rows()).find(({ id }) => id === headers.get('x-request-id'));
    expect(row).toMatchObject({ ended: 'settled', outcome: 'completed' });
  });
});
