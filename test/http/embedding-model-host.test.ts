/** `--embedding-model` on the real host: two models on the adapter, with swaps, and the errors at the start. */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { buildHost, freshDataDir, type HostProcess, startHost } from '../support/host.ts';

const fixture = (name: string) =>
  fileURLToPath(new URL(`../fixtures/architectures/${name}/model.gguf`, import.meta.url));

let folder: string;
beforeAll(() => {
  buildHost();
  folder = freshDataDir();
  mkdirSync(join(folder, 'models'));
  cpSync(fixture('bert'), join(folder, 'models', 'bert.gguf'));
  cpSync(fixture('qwen3'), join(folder, 'models', 'toy.gguf'));
});

const start = (...args: string[]): HostProcess =>
  startHost(['--gpu', '--port', '0', '--data-dir', folder, ...args]);

describe('the real host with --embedding-model', () => {
  test('embeds beside what the resident model generates, also after a swap, and stops cleanly', async () => {
    const host = start('--swap', '--embedding-model', 'bert');
    const url = await host.url();
    const post = async (path: string, body: object) => {
      const response = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return (await response.json()) as {
        model: string;
        data: { embedding: number[] }[];
        choices: { text: string }[];
      };
    };
    const complete = (model?: string) =>
      post('/v1/completions', {
        ...(model ? { model } : {}),
        prompt: 'Once',
        max_tokens: 12,
        temperature: 0,
      });
    const embed = async (model?: string) =>
      (await post('/v1/embeddings', { ...(model ? { model } : {}), input: ['a fox', 'a vixen'] })).data.map(
        ({ embedding }) => embedding,
      );
    const alone = [await complete(), await embed()] as const;
    expect(alone[1].map(({ length }) => length)).toEqual([64, 64]);
    const [text, ...vectors] = await Promise.all([complete(), ...Array.from({ length: 5 }, () => embed())]);
    expect(text.choices).toEqual(alone[0].choices);
    for (const vector of vectors) expect(vector).toEqual(alone[1]);
    expect(await embed('bert')).toEqual(alone[1]);
    expect((await embed('lathe-tiny'))[0]).not.toHaveLength(64);

    expect((await complete('toy')).choices).toHaveLength(1);
    expect(await embed()).toEqual(alone[1]);
    const ps = (await (await fetch(`${url}/api/ps`)).json()) as {
      models: { name: string; size_vram: number }[];
    };
    expect(ps.models.map(({ name }) => name)).toEqual(['toy:latest', 'bert:latest']);
    for (const { size_vram: bytes } of ps.models) expect(bytes).toBeGreaterThan(10_000);
    const deleted = await fetch(`${url}/api/delete`, { method: 'DELETE', body: '{"model":"bert"}' });
    expect([deleted.status, await deleted.text()]).toEqual([
      409,
      expect.stringContaining('is the embedding model, which stays loaded'),
    ]);
    host.kill('SIGTERM');
    expect(await host.exit).toEqual({ code: 0, signal: null });
    expect(host.output.stderr).toMatch(/embeddings: model tiny-bert \(bert/);
    expect(host.output.stderr).not.toMatch(/error|\bat /i);
  });

  test.each([
    ['toy', /--embedding-model: .*generates text; name a model that only makes embeddings/],
    ['absent', /no pulled model 'absent'/],
    ['lathe-tiny', /--embedding-model names the model of --model/],
  ])('does not start with %s', async (name, message) => {
    const host = start('--embedding-model', name);
    expect(await host.exit).toEqual({ code: 1, signal: null });
    expect(host.output.stderr).toMatch(message);
  });
});
