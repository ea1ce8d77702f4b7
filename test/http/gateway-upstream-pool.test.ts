import { createServer, type Server, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { UpstreamRouter } from '../../src/gateway/upstream/router.ts';
import { UndiciTransport } from '../../src/gateway/upstream/transport.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { aCandidate, aSending } from '../support/gateway/candidates.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

/** A host that streams two frames with a moment in between, says how it is, and can be killed and started again. */
class FakeHost {
  port = 0;
  status = 200;
  health = 200;
  answered = 0;
  endless = false;
  looks = 0;
  #server: Server | undefined;

  async start(): Promise<void> {
    const server = createServer((request, response) => {
      request.resume();
      if (request.url === '/health') {
        this.looks += 1;
        response.writeHead(this.health).end('{}');
      } else this.#answer(response);
    });
    server.listen(this.port, '127.0.0.1');
    await once(server, 'listening');
    this.port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  #answer(response: ServerResponse): void {
    response.writeHead(this.status, { 'content-type': 'text/event-stream' });
    response.write('data: 1\n\n');
    if (this.endless) return;
    setTimeout(() => {
      this.answered += 1;
      response.end(`data: ${this.port}\n\n`);
    }, 5);
  }

  connections(): Promise<number> {
    return new Promise((resolve) => this.#server?.getConnections((_, count) => resolve(count)));
  }

  kill(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
    this.#server?.closeAllConnections();
  }
}

async function pool(count: number, healthMs = 50) {
  const hosts = Array.from({ length: count }, () => new FakeHost());
  for (const host of hosts) {
    await host.start();
    closing.push(() => host.kill());
  }
  const way = new UndiciTransport({ limits: { healthMs } });
  closing.push(() => way.close());
  const urls = hosts.map(({ port }) => `http://127.0.0.1:${port}/v1`);
  const candidate = aCandidate(urls, { id: 'hosts', wire: 'lathe' });
  const router = new UpstreamRouter({ limits: { retries: 3, breakerFailures: 3, breakerSecs: 60 } });
  /** @returns the port of the host that answered */
  const ask = (prefix: string): Promise<number> =>
    router.run(
      [candidate],
      async () => {
        const reply = await way.send(aSending(candidate, { stream: true, prefix }));
        const data: string[] = [];
        for await (const frame of reply.frames()) data.push(frame.data);
        if (data.length !== 2) throw new Error(`${data.length} frames`);
        return Number(data[1]);
      },
      {
        signal: new AbortController().signal,
        callerId: 'caller',
        stream: true,
        finished: Promise.resolve(),
      },
    );
  return { hosts, way, candidate, ask };
}

describe('a pool of lathe hosts', () => {
  it('keeps a prefix on its host, and spreads prefixes and load', async () => {
    const { hosts, ask } = await pool(3, 100_000);
    const first = await ask('the prefix');
    for (let n = 0; n < 10; n += 1) expect(await ask('the prefix')).toBe(first);
    const answers = await Promise.all(Array.from({ length: 60 }, () => ask('the prefix')));
    for (const { port } of hosts) expect(answers.filter((one) => one === port).length).toBeGreaterThan(10);
  });

  it('answers every request while a host is killed under load, and uses the host again when it is back', async () => {
    const { hosts, ask } = await pool(3);
    const [victim] = hosts;
    if (!victim) throw new Error('no host');
    const prefixes = Array.from({ length: 300 }, (_, n) => `prefix ${n}`);
    const load = async (from: number) => {
      const answers: number[] = [];
      for (let n = from; n < prefixes.length; n += 20) {
        answers.push(await ask(prefixes[n] ?? ''));
        if (n === 60) victim.kill();
      }
      return answers;
    };
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => load(n)));
    expect(answers.flat()).toHaveLength(300);
    const others = await Promise.all(prefixes.slice(0, 30).map((prefix) => ask(prefix)));
    expect(others).not.toContain(victim.port);
    await victim.start();
    await expect
      .poll(async () => await Promise.all(prefixes.slice(0, 30).map((prefix) => ask(prefix))))
      .toContain(victim.port);
  });

  it('skips a host that reports it is unhealthy', async () => {
    const { hosts, ask } = await pool(2);
    const [ill] = hosts;
    if (!ill) throw new Error('no host');
    await ask('x');
    ill.health = 503;
    const before = ill.looks;
    await expect.poll(() => ill.looks).toBeGreaterThan(before + 1);
    const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => ask(`prefix ${n}`)));
    expect(answers).not.toContain(ill.port);
  });

  it('uses another host when one answers 502 or 503', async () => {
    const { hosts, ask } = await pool(2, 100_000);
    const [busy, other] = hosts;
    if (!busy || !other) throw new Error('no host');
    busy.status = 503;
    for (let n = 0; n < 30; n += 1) expect(await ask(`prefix ${n}`)).toBe(other.port);
    expect(busy.answered).toBeLessThanOrEqual(30);
  });

  it('does not count canceled requests against a host', async () => {
    const { hosts, way, candidate } = await pool(2, 100_000);
    for (const host of hosts) host.endless = true;
    const gone = new AbortController();
    for (let n = 0; n < 6; n += 1) {
      const sending = aSending(candidate, { stream: true, prefix: `${n}`, signal: gone.signal });
      const reply = await way.send(sending);
      if (n % 2 === 0) reply.cut();
    }
    gone.abort(new Error('gone'));
    const connections = () => Promise.all(hosts.map((host) => host.connections()));
    await expect.poll(connections).toEqual([0, 0]);
    expect(hosts.map(({ looks }) => looks)).toEqual([1, 1]);
  });

  it('that the configuration no longer has is not checked, also when a request is sent to it later', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    closing.push(() => vi.useRealTimers());
    const { hosts, way, candidate, ask } = await pool(1);
    const [host] = hosts as [FakeHost];
    await ask('x');
    expect(vi.getTimerCount()).toBe(1);
    host.endless = true;
    const stop = new AbortController();
    closing.push(() => stop.abort());
    await way.send(aSending(candidate, { stream: true, signal: stop.signal }));
    host.endless = false;
    way.retainPools([]);
    expect(vi.getTimerCount()).toBe(0);
    await ask('x');
    expect(vi.getTimerCount()).toBe(0);
    way.retainPools([candidate.model.provider]);
    expect(vi.getTimerCount()).toBe(1);
    stop.abort();
    way.retainPools([]);
    await ask('x');
    expect([vi.getTimerCount(), host.looks]).toEqual([0, 2]);
  });

  it('keeps its load when a reload removes it and another adds it again', async () => {
    const { hosts, way, candidate, ask } = await pool(2, 100_000);
    const home = await ask('x');
    const stop = new AbortController();
    closing.push(() => stop.abort());
    for (const host of hosts) host.endless = true;
    // As many as a host gets more than another one.
    for (let n = 0; n < 4; n += 1)
      await way.send(aSending(candidate, { stream: true, prefix: 'x', signal: stop.signal }));
    for (const host of hosts) host.endless = false;
    way.retainPools([]);
    way.retainPools([candidate.model.provider]);
    expect(await ask('x')).not.toBe(home);
  });

  it('asks another host than the one that failed, also when a reload removes it meanwhile', async () => {
    const { hosts, way, ask } = await pool(2, 100_000);
    way.retainPools([]);
    const [down, up] = hosts as [FakeHost, FakeHost];
    down.status = 503;
    down.health = 503;
    for (let n = 0; n < 10; n += 1) expect(await ask(`prefix ${n}`)).toBe(up.port);
    down.kill();
    for (let n = 0; n < 10; n += 1) expect(await ask(`prefix ${n}`)).toBe(up.port);
  });

  it('passes on the answer when all hosts refuse', async () => {
    const { hosts, way, candidate } = await pool(1);
    for (const host of hosts) host.status = 503;
    const reply = await way.send(aSending(candidate));
    expect(reply.status).toBe(503);
    expect(await reply.text()).toContain('data: 1');
  });

  it('fails where no host is up', async () => {
    const { hosts, way, candidate } = await pool(2);
    for (const host of hosts) host.kill();
    const failures: unknown[] = [];
    for (let n = 0; n < 4; n += 1)
      failures.push(await way.send(aSending(candidate)).catch((error: unknown) => error));
    for (const failure of failures) expect(failure).toBeInstanceOf(UpstreamFailure);
    expect(failures.at(-1)).toMatchObject({
      isRetryable: true,
      isUnhealthy: true,
      error: { status: 502, code: 'upstream_failed' },
    });
    expect((failures.at(-1) as Error).message).toBe(
      "None of the hosts of the provider 'hosts' is up. Try again later.",
    );
  });
});
