import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { GatewayPlanner } from '../../src/agent/gateway-planner.ts';
import type { PlannerEvent } from '../../src/agent/planner.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** What a model behind this server answers. */
async function answer(listener: RequestListener, timeoutMs = 120_000): Promise<PlannerEvent[]> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const planner = new GatewayPlanner({ url: `http://127.0.0.1:${port}/v1`, timeoutMs }, 'm');
  const request = { messages: [], tools: [], sampling: {}, maxTokens: 10 };
  const events: PlannerEvent[] = [];
  for await (const event of planner.answer(request, new AbortController().signal)) events.push(event);
  return events;
}

const streams = { 'content-type': 'text/event-stream' };
const done = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

describe('a model of a gateway', () => {
  it('is waited for as long as its gateway gives any sign of life', async () => {
    const queueing: RequestListener = (_, response) => {
      response.writeHead(200, streams);
      let left = 12;
      const wait = setInterval(() => {
        left -= 1;
        if (left > 0) response.write(': in the queue\n\n');
        else {
          clearInterval(wait);
          response.end(done);
        }
      }, 250);
    };
    expect(await answer(queueing, 2500)).toEqual([
      { type: 'delta', text: 'Hi' },
      { type: 'end', finish: 'stop' },
    ]);
    const silent: RequestListener = (_, response) => response.writeHead(200, streams).flushHeaders();
    await expect(answer(silent, 100)).rejects.toMatchObject({ code: 'gateway_timeout' });
  });

  it.each(['application/json', 'text/event-stream'])(
    'is given up where one piece of its answer is larger than any honest one (%s)',
    async (type) => {
      const flood: RequestListener = (_, response) => {
        response.writeHead(200, { 'content-type': type });
        response.write('data: {"choices":[{"delta":{"content":"');
        const more = () => {
          while (!response.destroyed) if (!response.write('x'.repeat(65_536))) return;
        };
        response.on('drain', more);
        more();
      };
      await expect(answer(flood)).rejects.toMatchObject({ code: 'gateway_answer_too_large' });
    },
  );
});
