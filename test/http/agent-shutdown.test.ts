/** The end of a run's stream when the host stops. */
import { afterEach, expect, it } from 'vitest';
import { type HostProcess, startSource } from '../support/host.ts';

let host: HostProcess | undefined;
afterEach(async () => await host?.end());

it('ends streams of an unfinished run with the reason when the host stops, and cuts off no reader', async () => {
  host = startSource(['--port', '0', '--enable-all-workflows']);
  const base = `${await host.url()}/agent/v1`;
  const source = '[ensemble]\nname = "ask"\n\n[[steps]]\nid = "a"\ngate = { kind = "approval" }\n';
  const stored = await fetch(`${base}/workflows`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: source,
  });
  expect(stored.status).toBe(201);
  const run = await fetch(`${base}/workflows/ask/runs`, { method: 'POST' });
  const lines = run.body?.pipeThrough(new TextDecoderStream()) ?? [];
  let text = '';
  let hasSignaled = false;
  for await (const part of lines) {
    text += part;
    if (hasSignaled || !text.includes('step_waiting')) continue;
    hasSignaled = true;
    host.kill('SIGINT');
  }
  expect(JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')).toMatchObject({
    error: { code: 'shutting_down' },
  });
  expect(await host.exit).toEqual({ code: 0, signal: null });
});
