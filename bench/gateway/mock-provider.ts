import { createServer } from 'node:http';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';

/**
 * A provider that answers immediately with minimal work, so that the gateway dominates the measurement. Streams have 20
 * chunks, 5 ms apart; each contains the time when it was written (fractional ms since the Unix epoch).
 */
const chunks = 20;
const pauseMs = 5;

const now = () => performance.timeOrigin + performance.now();

function serve(): void {
  const base = { id: 'chatcmpl-1', created: 1_700_000_000, model: 'mock-1' };
  const usage = { prompt_tokens: 20, completion_tokens: 12, total_tokens: 32 };
  const message = {
    role: 'assistant',
    content: 'Hello from a provider that answers at once.',
    refusal: null,
  };
  const choice = { index: 0, message, logprobs: null, finish_reason: 'stop' };
  const whole = JSON.stringify({ ...base, object: 'chat.completion', choices: [choice], usage });
  const chunk = (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({
      ...base,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      usage: null,
    })}\n\n`;
  const last = `data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', choices: [], usage })}\n\ndata: [DONE]\n\n`;
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (part: string) => (text += part));
    request.on('end', () => {
      if (!text.includes('"stream":true')) {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': whole.length });
        response.end(whole);
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      // `fast`: sends the whole stream in one write, for throughput.
      if (text.includes('fast')) {
        let all = chunk({ role: 'assistant', content: '' });
        for (let n = 0; n < chunks; n += 1) all += chunk({ content: `word${n} ` });
        response.end(all + chunk({}, 'stop') + last);
        return;
      }
      response.write(chunk({ role: 'assistant', content: '' }));
      let n = 0;
      const timer = setInterval(() => {
        n += 1;
        if (n <= chunks) response.write(chunk({ content: `${now()} ` }));
        else {
          clearInterval(timer);
          response.end(chunk({}, 'stop') + last);
        }
      }, pauseMs);
      response.on('close', () => clearInterval(timer));
    });
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    parentPort?.postMessage(typeof address === 'object' ? address?.port : undefined, []);
  });
}

/** Starts the provider in a worker thread. */
export async function startMockProvider(): Promise<{
  url: string;
  /** Processor time of its thread so far, in ms. */
  cpuMs: () => Promise<number>;
  close: () => Promise<unknown>;
}> {
  const worker = new Worker(fileURLToPath(import.meta.url));
  const port = await new Promise<number>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  return {
    url: `http://127.0.0.1:${port}/v1`,
    async cpuMs() {
      const { user, system } = await worker.cpuUsage();
      return (user + system) / 1000;
    },
    close: () => worker.terminate(),
  };
}

if (!isMainThread) serve();
