/** `--resident` on the real host: models on the adapter at the same time, clients that leave, files that are deleted. */
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ollama } from 'ollama';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildHost, freshDataDir, type HostProcess, repository, startHost } from '../support/host.ts';
import { until } from '../support/until.ts';

const fixture = (name: string) =>
  fileURLToPath(new URL(`../fixtures/architectures/${name}/model.gguf`, import.meta.url));

const embedded = join(repository, 'models/lathe-tiny-q8_0.gguf');

let folder: string;
let host: HostProcess;
let url: string;
let ollama: Ollama;
beforeAll(async () => {
  buildHost();
  folder = freshDataDir();
  mkdirSync(join(folder, 'models'));
  for (const [name, file] of [
    ['toy', fixture('qwen3')],
    ['llama', fixture('llama')],
    ['bert', fixture('bert')],
    ['twin', embedded],
  ] as const)
    cpSync(file, join(folder, 'models', `${name}.gguf`));
  host = startHost(['--gpu', '--resident', '2', '--port', '0', '--data-dir', folder]);
  url = await host.url();
  ollama = new Ollama({ host: url });
});
afterAll(() => host.end());

const loaded = async () => (await ollama.ps()).models.map(({ name }) => name.replace(/:latest$/, ''));
const post = (path: string, body: object, init: RequestInit = {}) =>
  fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...init,
  });
/** A completion whose text depends on the weights alone. */
const fixed = (model: string, tokens: number) => ({
  model,
  prompt: 'Once upon a time',
  max_tokens: tokens,
  temperature: 0,
  ignore_eos: true,
});
const textOf = async (model: string, tokens: number): Promise<string> => {
  const response = await post('/v1/completions', fixed(model, tokens));
  const body = (await response.json()) as { choices?: { text: string }[] };
  return body.choices?.[0]?.text ?? JSON.stringify(body);
};
/** Streams a completion; `seen` gets the model's name at each piece. */
async function stream(model: string, tokens: number, seen: string[]): Promise<string> {
  const response = await post('/v1/completions', { ...fixed(model, tokens), stream: true });
  let text = '';
  let rest = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!line.startsWith('data: {')) continue;
      text += (JSON.parse(line.slice(6)) as { choices: { text: string }[] }).choices[0]?.text ?? '';
      seen.push(model);
    }
  }
  return text;
}

describe('two models on the adapter', () => {
  test('stream at the same time, and each text is what it is alone', async () => {
    const tokens = 400;
    const alone = [await textOf('lathe-tiny', tokens), await textOf('twin', tokens)];
    expect(await loaded()).toEqual(['lathe-tiny', 'twin']);
    const seen: string[] = [];
    const together = await Promise.all([stream('lathe-tiny', tokens, seen), stream('twin', tokens, seen)]);
    expect(together).toEqual(alone);
    // Neither waits until the other is done.
    const between = seen.slice(
      Math.max(seen.indexOf('lathe-tiny'), seen.indexOf('twin')),
      Math.min(seen.lastIndexOf('lathe-tiny'), seen.lastIndexOf('twin')) + 1,
    );
    for (const model of ['lathe-tiny', 'twin'])
      expect(between.filter((one) => one === model).length).toBeGreaterThan(20);
  });

  test('of different architectures answer and embed at the same time as they do alone', async () => {
    const answer = await textOf('toy', 100);
    const vectors = (await ollama.embed({ model: 'bert', input: ['a fox', 'a vixen'] })).embeddings;
    const mine = await textOf('lathe-tiny', 100);
    for (const model of ['toy', 'bert'] as const) {
      const other =
        model === 'toy'
          ? async () => expect(await textOf('toy', 100)).toBe(answer)
          : async () =>
              expect((await ollama.embed({ model, input: ['a fox', 'a vixen'] })).embeddings).toEqual(
                vectors,
              );
      await other();
      await Promise.all([
        other(),
        other(),
        textOf('lathe-tiny', 100).then((text) => expect(text).toBe(mine)),
      ]);
      expect(await loaded()).toEqual(['lathe-tiny', model]);
    }
  });

  test('the lab stays with the model of --model', async () => {
    await textOf('toy', 1);
    const graph = (await (await fetch(`${url}/lab/v1/graph`)).json()) as { model: string };
    expect(graph.model).toBe('lathe-tiny');
    const bench = await post('/lab/v1/parity/run', {});
    expect(bench.status).toBe(200);
    await bench.text();
    expect(await loaded()).toEqual(['lathe-tiny', 'toy']);
  });
});

test('clients that leave while their model loads, at whatever stage, disturb nobody', async () => {
  const text = await textOf('llama', 20);
  for (const delayMs of [1, 20, 60, 150, 300]) {
    await ollama.generate({ model: 'llama', prompt: '', keep_alive: 0 });
    await until(async () => (await loaded()).length === 1);
    const gone = new AbortController();
    const waiting = post('/v1/completions', fixed('llama', 5), { signal: gone.signal });
    waiting.catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    gone.abort();
    await waiting.catch(() => undefined);
    expect(await textOf('llama', 20)).toBe(text);
    expect(await loaded()).toEqual(['lathe-tiny', 'llama']);
  }
});

test('a model whose file is deleted goes on while it is loaded, and is gone afterwards', async () => {
  const text = await textOf('toy', 20);
  await expect(ollama.delete({ model: 'toy' })).rejects.toThrow(
    /loaded beside the resident model.*keep_alive 0/,
  );
  rmSync(join(folder, 'models/toy.gguf'));
  expect(await textOf('tiny-qwen3', 20)).toBe(text);
  // Another model takes its place, and then its name means nothing.
  await textOf('llama', 1);
  expect((await post('/v1/completions', fixed('toy', 1))).status).toBe(404);
  const failed = await post('/v1/completions', fixed('tiny-qwen3', 1));
  expect([failed.status, await failed.text()]).toEqual([
    500,
    expect.stringMatching(/model_load_failed|'toy\.gguf' cannot be loaded: .*no such file/),
  ]);
  expect((await post('/v1/completions', fixed('lathe-tiny', 1))).status).toBe(200);
  await ollama.generate({ model: 'llama', prompt: '', keep_alive: 0 });
  await until(async () => (await loaded()).length === 1);
  await ollama.delete({ model: 'llama' });
});

test('stops cleanly', async () => {
  host.kill('SIGTERM');
  expect(await host.exit).toEqual({ code: 0, signal: null });
  expect(host.output.stderr).not.toMatch(/\bat .*\.js/);
});

describe('with --resident-bytes', () => {
  test('models share the memory, and one that does not fit says how much is missing', async () => {
    const data = freshDataDir();
    mkdirSync(join(data, 'models'));
    cpSync(fixture('bert'), join(data, 'models/bert.gguf'));
    cpSync(embedded, join(data, 'models/twin.gguf'));
    const limit = 14_000_000;
    const args = ['--gpu', '--resident', '3', '--resident-bytes', String(limit), '--port', '0'];
    const small = startHost([...args, '--data-dir', data]);
    const at = await small.url();
    const client = new Ollama({ host: at });
    const sizes = async () => (await client.ps()).models.map(({ name, size }) => [name, size] as const);
    const [[, size] = ['', 0]] = await sizes();
    expect(size).toBeLessThan(limit);
    await client
      .embed({ model: 'bert', input: 'x' })
      .catch((error: unknown) => expect(error).toBeUndefined());
    const used = (await sizes()).reduce((sum, [, bytes]) => sum + bytes, 0);
    expect(used).toBeLessThanOrEqual(limit);
    await expect(client.generate({ model: 'twin', prompt: 'x' })).rejects.toThrow(
      /'twin\.gguf' cannot be loaded: .* are missing; .*loaded beside it: lathe-tiny \(/,
    );
    expect((await sizes()).map(([name]) => name)).toEqual(['lathe-tiny:latest', 'bert:latest']);
    small.kill('SIGTERM');
    expect(await small.exit).toEqual({ code: 0, signal: null });
  });
});
