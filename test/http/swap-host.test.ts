/**
 * Swapping the resident model on the real host: two models, under load, with clients that disconnect, and a broken
 * file.
 */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ollama } from 'ollama';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildHost, freshDataDir, type HostProcess, startHost } from '../support/host.ts';

const fixture = (path: string) =>
  fileURLToPath(new URL(`../fixtures/architectures/${path}`, import.meta.url));

let host: HostProcess;
let url: string;
let ollama: Ollama;

beforeAll(async () => {
  buildHost();
  const folder = freshDataDir();
  mkdirSync(join(folder, 'models', 'o--face'), { recursive: true });
  cpSync(fixture('qwen2/hf'), join(folder, 'models', 'o--face'), { recursive: true });
  cpSync(fixture('bert/model.gguf'), join(folder, 'models', 'bert.gguf'));
  cpSync(fixture('qwen3/model.gguf'), join(folder, 'models', 'toy.gguf'));
  writeFileSync(join(folder, 'models', 'broken.gguf'), 'no model at all');
  host = startHost(['--gpu', '--swap', '--port', '0', '--data-dir', folder]);
  url = await host.url();
  ollama = new Ollama({ host: url });
});
afterAll(async () => {
  await host.end();
});

const sum = [{ role: 'user', content: 'What is 2 plus 3?' }];
const exact = { temperature: 0, num_predict: 8 };
const resident = async () => (await ollama.ps()).models.map(({ name }) => name.replace(/:latest$/, ''));
const openai = (path: string, body: unknown) =>
  fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

describe('the real host', () => {
  test('answers each request with the model it names, and identically after swapping back', async () => {
    const before = await ollama.chat({ model: 'lathe-tiny', messages: sum, options: exact });
    expect(before.message.content).toContain('5');
    const vectors = await ollama.embed({ model: 'bert', input: ['a', 'b'] });
    expect(vectors.embeddings.map(({ length }) => length)).toEqual([64, 64]);
    expect(vectors.load_duration).toBeGreaterThan(1e6);
    expect(await resident()).toEqual(['bert']);
    const other = await ollama.generate({ model: 'o--face', prompt: 'x', raw: true, options: exact });
    expect(other.eval_count).toBeGreaterThan(0);
    expect(await resident()).toEqual(['o--face']);
    const again = await (
      await openai('/v1/chat/completions', { model: 'lathe-tiny', messages: sum, temperature: 0 })
    ).json();
    expect(again).toMatchObject({
      model: 'lathe-tiny',
      choices: [{ message: { content: before.message.content } }],
    });
  });

  test('a model keeps its names whether it is resident or not, and a request of the wrong kind causes no swap', async () => {
    const idsOf = async () => {
      const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
      return data.map(({ id }) => id).toSorted();
    };
    await ollama.generate({ model: 'toy', prompt: '' });
    const { model: own } = (await (
      await openai('/v1/completions', { prompt: 'x', max_tokens: 1 })
    ).json()) as { model: string };
    expect(own).not.toBe('toy');
    const one = async (id: string) => {
      const response = await fetch(`${url}/v1/models/${id}`);
      return [response.status, await response.json()];
    };
    const whenResident = await idsOf();
    expect(whenResident).toEqual(expect.arrayContaining(['bert', 'lathe-tiny', 'toy', own]));
    expect(await one('toy')).toMatchObject([200, { id: 'toy', digest: expect.any(String) }]);
    await ollama.generate({ model: 'lathe-tiny', prompt: '' });
    expect(await idsOf()).toEqual(whenResident);
    for (const id of ['toy', 'toy:latest', own, 'bert', 'lathe-tiny:latest'])
      expect([id, ...(await one(id))]).toMatchObject([id, 200, { object: 'model' }]);
    expect(await one('absent')).toMatchObject([404, { error: { code: 'model_not_found' } }]);

    const loadedBefore = host.output.stderr.split('swapped to').length;
    const wrong = await openai('/v1/chat/completions', { model: 'bert', messages: sum });
    expect([wrong.status, await wrong.json()]).toMatchObject([
      400,
      { error: { code: 'unsupported_capability' } },
    ]);
    expect(host.output.stderr.split('swapped to').length).toBe(loadedBefore);
    expect(await resident()).toEqual(['lathe-tiny']);
  });

  test('a model that generates embeds beside what it generates, after a swap as well', async () => {
    const [{ message }, { embeddings }, llamaCpp] = await Promise.all([
      ollama.chat({ model: 'lathe-tiny', messages: sum, options: exact }),
      ollama.embed({ model: 'lathe-tiny', input: ['a fox', 'a vixen'] }),
      openai('/embedding', { content: 'a fox' }),
    ]);
    expect(message.content).toContain('5');
    for (const vector of embeddings) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
    expect(await llamaCpp.json()).toEqual([{ index: 0, embedding: [embeddings[0]] }]);
    const other = await (await openai('/v1/embeddings', { model: 'toy', input: 'x' })).json();
    expect(other).toMatchObject({ data: [{ embedding: expect.any(Array) as number[] }] });
    expect(await resident()).toEqual(['toy']);
    const again = await ollama.embed({ model: 'lathe-tiny', input: ['a fox', 'a vixen'] });
    expect(again.embeddings).toEqual(embeddings);
  });

  test('answers correctly under load, with clients that disconnect', async () => {
    const models = ['lathe-tiny', 'o--face', 'bert'] as const;
    const one = async (index: number) => {
      const model = models[index % 3] ?? 'bert';
      if (model === 'bert') {
        const { embeddings } = await ollama.embed({ model, input: 'a' });
        return expect(embeddings[0]?.length).toBe(64);
      }
      if (index % 4 === 1) {
        const stream = await ollama.generate({
          model,
          prompt: 'x',
          raw: true,
          stream: true,
          options: { num_predict: -2 },
        });
        const leave = async () => {
          for await (const line of stream) {
            expect(line.model).toBe(model);
            stream.abort();
          }
        };
        return await expect(leave()).rejects.toThrow(/abort/i);
      }
      const answer = await ollama.generate({ model, prompt: 'x', raw: true, options: exact });
      expect(answer.eval_count).toBeGreaterThan(0);
    };
    await Promise.all(Array.from({ length: 18 }, (_, index) => one(index)));
    const { message } = await ollama.chat({ model: 'lathe-tiny', messages: sum, options: exact });
    expect(message.content).toContain('5');
  });

  test('a broken file is refused before the working model is closed', async () => {
    const loadedBefore = host.output.stderr.split('swapped to').length;
    await expect(ollama.chat({ model: 'broken', messages: sum })).rejects.toThrow(
      /'broken' cannot be loaded: .+/,
    );
    expect(host.output.stderr.split('swapped to').length).toBe(loadedBefore);
    expect(await resident()).toEqual(['lathe-tiny']);
  });

  test('the resident model cannot be deleted or replaced; a copy with its own defaults is served by it', async () => {
    await ollama.create({
      model: 'terse',
      from: 'lathe-tiny',
      parameters: { num_predict: 1, temperature: 0 },
    });
    const short = await ollama.chat({
      model: 'terse',
      messages: [{ role: 'user', content: 'Count to ten.' }],
    });
    expect(short).toMatchObject({ model: 'terse', done_reason: 'length', eval_count: 1 });
    expect(await resident()).toEqual(['lathe-tiny']);
    await ollama.embed({ model: 'bert', input: 'a' });
    await expect(ollama.delete({ model: 'bert' })).rejects.toThrow(/is the resident model/);
    await expect(ollama.create({ model: 'bert', from: 'lathe-tiny' })).rejects.toThrow(
      /is the resident model/,
    );
    await ollama.delete({ model: 'terse' });
    expect((await ollama.embed({ model: 'bert', input: 'a' })).embeddings).toHaveLength(1);
  });

  test('stops cleanly, even after swaps', async () => {
    host.kill('SIGTERM');
    expect(await host.exit).toEqual({ code: 0, signal: null });
    expect(host.output.stderr).not.toMatch(/error|\bat /i);
  });
});
