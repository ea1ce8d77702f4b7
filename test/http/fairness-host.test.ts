/** A flood by one client on a host with a real model: another client is served in the middle of it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';
import { readPrometheus } from '../support/prometheus.ts';
import { until } from '../support/until.ts';

let host: HostProcess;
let url: string;
let control: string;
beforeAll(async () => {
  buildHost();
  host = startHost('--gpu --port 0 --control-port 0 --parallel 2 --queue 4'.split(' '));
  url = await host.url();
  control = /control at (http:[^)]+)/.exec(host.output.stdout)?.[1] ?? '';
});
afterAll(() => host.end());

const complete = (key: string, prompt: string, maxTokens: number, signal?: AbortSignal) =>
  fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ prompt, max_tokens: maxTokens, temperature: 0, ignore_eos: true }),
    ...(signal ? { signal } : {}),
  });
const textOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { choices: { text: string }[] }).choices[0]?.text ?? '';
/** Requests in the queue. */
const waiting = async (): Promise<number | undefined> =>
  readPrometheus(await (await fetch(`${control}/metrics`)).text()).get('lathe_requests_waiting')?.samples[0]
    ?.value;
const busySlots = async (): Promise<number> => {
  const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[];
  return slots.filter(({ is_processing: isBusy }) => isBusy).length;
};

test('its request is answered, and takes a place in the full queue; the texts are those of an idle host', async () => {
  const prompts = ['One day', 'Two cats', 'Three men', 'Four dogs', 'Five boats', 'Six birds'];
  const alone: string[] = [];
  for (const prompt of prompts) alone.push(await textOf(await complete('flood', prompt, 300)));
  const wanted = await textOf(await complete('lone', 'Once upon a time', 10));

  const statuses: number[] = [];
  const flood = prompts.map(async (prompt) => {
    const response = await complete('flood', prompt, 300);
    statuses.push(response.status);
    return response.status === 200 ? await textOf(response) : undefined;
  });
  // Both slots and all four places of the queue are taken.
  await until(async () => (await waiting()) === 4);
  expect((await complete('flood', 'One more', 1)).status).toBe(429);
  const lone = await complete('lone', 'Once upon a time', 10);
  expect(lone.status).toBe(200);
  // The flood's answers are thirty times as long; none but the refused one has ended.
  expect(statuses).toEqual([429]);
  expect(await textOf(lone)).toBe(wanted);
  const texts = await Promise.all(flood);
  expect(texts.filter((text) => text === undefined)).toHaveLength(1);
  for (const [index, text] of texts.entries()) if (text !== undefined) expect(text).toBe(alone[index]);
});

test('a deadline that passes in the queue is a 408', async () => {
  const over = new AbortController();
  const flood = ['One day', 'Two cats'].map((prompt) => complete('one', prompt, 900, over.signal));
  await until(async () => (await busySlots()) === 2);
  const late = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: 'Bearer one',
      'x-request-timeout': '0.05',
    },
    body: JSON.stringify({ prompt: 'Once', max_tokens: 5 }),
  });
  expect([late.status, await late.text()]).toEqual([408, expect.stringContaining('deadline_exceeded')]);
  over.abort();
  await Promise.allSettled(flood);
});
