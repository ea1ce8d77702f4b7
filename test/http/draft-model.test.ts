/** `--draft` as a user gives it: the same answers as without, and a clear word where two models do not go together. */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildHost, freshDataDir, type HostProcess, repository, startHost } from '../support/host.ts';

const fixture = (path: string) =>
  fileURLToPath(new URL(`../fixtures/architectures/${path}`, import.meta.url));

beforeAll(buildHost);

/** The embedded model under another name, so that it can draft for itself. */
function dataDir(): string {
  const folder = freshDataDir();
  mkdirSync(join(folder, 'models'), { recursive: true });
  cpSync(join(repository, 'models', 'lathe-tiny-q8_0.gguf'), join(folder, 'models', 'twin.gguf'));
  cpSync(fixture('qwen3/model.gguf'), join(folder, 'models', 'toy.gguf'));
  return folder;
}

describe('a host with --draft', () => {
  let [plain, drafted]: (HostProcess | undefined)[] = [];
  let [plainUrl, url] = ['', ''];
  beforeAll(async () => {
    plain = startHost(['--gpu', '--port', '0', '--no-speculation']);
    const args = ['--gpu', '--port', '0', '--swap', '--data-dir', dataDir(), '--draft', 'twin'];
    drafted = startHost(args);
    [plainUrl, url] = [await plain.url(), await drafted.url()];
  });
  afterAll(async () => {
    await Promise.all([plain?.end(), drafted?.end()]);
  });

  test('names the model that drafts tokens', () => {
    expect(drafted?.output.stderr).toMatch(/^lathe-tiny drafts tokens \(speculative decoding\)$/m);
  });

  const post = (to: string, path: string, body: unknown) =>
    fetch(`${to}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const complete = async (to: string, body: Record<string, unknown>) => {
    const response = await post(to, '/v1/completions', { max_tokens: 60, ...body });
    expect(response.status).toBe(200);
    const { choices, usage } = (await response.json()) as { choices: unknown; usage: unknown };
    return { choices, usage };
  };
  const bodies = [
    { prompt: 'Once upon a time', temperature: 0 },
    { prompt: 'Once upon a time', temperature: 0.9, seed: 7 },
    { prompt: 'The fox and the', temperature: 1.2, top_p: 0.9, seed: 3 },
    { prompt: 'The fox and the', temperature: 0, logit_bias: { 300: 3 } },
    { prompt: 'The river is', temperature: 0.8, seed: 2, presence_penalty: 0.6 },
  ];

  test('answers as one without, one by one and together', async () => {
    const expected = [];
    for (const body of bodies) expected.push(await complete(plainUrl, body));
    const strip = (all: readonly { choices: unknown; usage: unknown }[]) => all.map(({ choices }) => choices);
    const alone = [];
    for (const body of bodies) alone.push(await complete(url, body));
    expect(strip(alone)).toEqual(strip(expected));
    const together = await Promise.all(bodies.map((body) => complete(url, body)));
    expect(strip(together)).toEqual(strip(expected));
  });

  test('another model that takes its place has none, and the first comes back with its own', async () => {
    const removal = () =>
      fetch(`${url}/api/delete`, {
        method: 'DELETE',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'twin' }),
      });
    // What drafts is in use.
    expect((await removal()).status).toBe(409);
    // Its tokens are others, so that it could not be loaded with the draft model.
    await complete(url, { model: 'toy', prompt: 'x', max_tokens: 4 });
    expect(drafted?.output.stderr).toMatch(
      /^--draft applies to lathe-tiny-q8_0\.gguf only: toy\.gguf runs without a draft model$/m,
    );
    const back = await complete(url, { ...bodies[1], model: 'lathe-tiny' });
    expect(back.choices).toEqual((await complete(plainUrl, bodies[1]!)).choices);
    expect((await removal()).status).toBe(409);
    // It is not in use while another model is resident.
    await complete(url, { model: 'toy', prompt: 'x', max_tokens: 4 });
    expect((await removal()).status).toBe(200);
  });
});

describe('a host with a draft model of no use', () => {
  const refusal = async (...args: string[]) => {
    const host = startHost(['--gpu', '--port', '0', ...args]);
    const { code } = await host.exit;
    return { code, stderr: host.output.stderr };
  };

  test('of other tokens does not start, and says which', async () => {
    const { code, stderr } = await refusal('--draft', fixture('qwen3/model.gguf'));
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /--draft: the tokens of .* are not those of .*: token \d+ is .*, not .*same family/s,
    );
  });

  test('that is unknown, or given with --no-speculation, prevents the start', async () => {
    expect((await refusal('--draft', 'no-such-model')).stderr).toMatch(/no pulled model 'no-such-model'/);
    expect((await refusal('--draft', 'lathe-tiny', '--no-speculation')).stderr).toMatch(
      /--draft: a draft model cannot be combined with --no-speculation/,
    );
  });
});
