/**
 * Management of stored models through Ollama's own client: pull, copy, create and delete, on real files, without a GPU.
 */
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ollama } from 'ollama';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type FakeHub, fakeHub, sendFile } from '../support/fake-hub.ts';
import { freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { modelsPath } from '../support/shared.ts';

const tiny = readFileSync(modelsPath('lathe-tiny-q8_0.gguf'));
const face = fileURLToPath(new URL('../fixtures/architectures/qwen2/hf', import.meta.url));
const digestOf = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

let hub: FakeHub;
let host: HostProcess;
let url: string;
let ollama: Ollama;
let folder: string;

beforeAll(async () => {
  hub = await fakeHub('owner/tiny-GGUF', [
    { path: 'tiny-Q8_0.gguf', content: tiny },
    { path: 'README.md', content: new TextEncoder().encode('hello'), small: true },
  ]);
  folder = freshDataDir();
  cpSync(face, join(folder, 'models', 'o--face'), { recursive: true });
  host = startSource(['--port', '0', '--data-dir', folder], { HF_ENDPOINT: hub.url });
  url = await host.url();
  ollama = new Ollama({ host: url });
});
afterAll(async () => {
  await host.end();
  await hub.close();
});

const names = async () => (await ollama.list()).models.map(({ name }) => name.replace(/:latest$/, ''));
const at = (...path: string[]): string => join(folder, 'models', ...path);
const post = (path: string, body: unknown, method = 'POST') =>
  fetch(url + path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
const upload = (bytes: Uint8Array<ArrayBuffer>, digest = digestOf(bytes)) =>
  fetch(`${url}/api/blobs/${digest}`, { method: 'POST', body: bytes });

describe('pull', () => {
  test('resumes where it was interrupted, and reports progress', async () => {
    hub.fault = (request, response) => {
      if (!request.url?.endsWith('.gguf')) return false;
      hub.fault = (other, refused) => {
        if (!other.url?.endsWith('.gguf')) return false;
        refused.writeHead(404).end();
        return true;
      };
      sendFile({ path: '', content: tiny }, request, response, { bytes: 1_000_000 });
      return true;
    };
    const cut = async () => {
      for await (const line of await ollama.pull({ model: 'hf.co/owner/tiny-GGUF', stream: true }))
        expect(line.status).not.toBe('success');
    };
    await expect(cut()).rejects.toThrow(/the repository or its revision|HTTP 404/);
    expect(existsSync(at('owner--tiny-GGUF', 'tiny-Q8_0.gguf.part'))).toBe(true);
    expect(await names()).not.toContain('owner--tiny-GGUF:tiny-Q8_0');

    hub.fault = () => false;
    const lines = [];
    for await (const line of await ollama.pull({ model: 'hf.co/owner/tiny-GGUF:Q8_0', stream: true }))
      lines.push(line);
    expect(lines[0]).toEqual({ status: 'pulling manifest' });
    expect(lines.at(-1)).toEqual({ status: 'success' });
    const progress = lines.filter(({ digest }) => digest !== undefined);
    for (const { digest, total } of progress) expect([digest, total]).toEqual([digestOf(tiny), tiny.length]);
    expect(progress[0]?.completed).toBeGreaterThanOrEqual(500_000);
    expect(progress.at(-1)?.completed).toBe(tiny.length);
    expect(hub.log.at(-1)).toMatch(/bytes=[1-9]/);
    expect(readFileSync(at('owner--tiny-GGUF', 'tiny-Q8_0.gguf'))).toEqual(tiny);
  });

  test('two clients share one download, and one that leaves does not stop the other', async () => {
    await ollama.delete({ model: 'owner--tiny-GGUF/tiny-Q8_0' });
    hub.log.length = 0;
    const goOn = Promise.withResolvers<void>();
    // Served slowly, until both clients take part.
    hub.fault = (request, response) => {
      if (!request.url?.endsWith('.gguf')) return false;
      response.writeHead(200, { 'content-length': tiny.length });
      let sent = 0;
      const more = setInterval(() => response.write(tiny.subarray(sent, (sent += 100))), 20);
      void goOn.promise.then(() => {
        clearInterval(more);
        response.end(tiny.subarray(sent));
      });
      return true;
    };
    const leaving = await ollama.pull({ model: 'hf:owner/tiny-GGUF', stream: true });
    const progress = Promise.withResolvers<void>();
    const left = expect(
      (async () => {
        for await (const line of leaving) {
          expect(line.status).not.toBe('success');
          if (line.digest !== undefined) progress.resolve();
        }
      })(),
    ).rejects.toThrow();
    await progress.promise;
    let last = '';
    for await (const line of await ollama.pull({ model: 'hf.co/owner/tiny-GGUF:latest', stream: true })) {
      last = line.status;
      if (line.digest === undefined || line.completed === line.total) continue;
      leaving.abort();
      await left;
      goOn.resolve();
    }
    expect(last).toBe('success');
    expect(hub.log.filter((line) => line.includes('.gguf'))).toHaveLength(1);
    hub.fault = () => false;
    expect(await ollama.pull({ model: 'hf.co/owner/tiny-GGUF' })).toEqual({ status: 'success' });
  });

  test('names of other registries are refused with advice, unless they are stored', async () => {
    for (const model of ['llama3.2', 'library/llama3.2:1b', 'example.com/o/n']) {
      await expect(ollama.pull({ model })).rejects.toThrow(
        /name a repository of a Hugging Face hub as hf.co/,
      );
    }
    for (const model of ['hf.co/only', 'hf.co/../x/y', 'hf:o/n/..'])
      await expect(ollama.pull({ model })).rejects.toThrow(/is not a repository/);
    await expect(ollama.pull({ model: 'hf.co/owner/absent' })).rejects.toThrow(
      /the repository or its revision/,
    );
    expect(await ollama.pull({ model: 'lathe-tiny' })).toEqual({ status: 'success' });
  });
});

describe('list and show', () => {
  test('every stored model with its details', async () => {
    const { models } = await ollama.list();
    expect(models.map(({ name }) => name)).toEqual([
      'lathe-tiny:latest',
      'o--face:latest',
      'owner--tiny-GGUF:tiny-Q8_0',
    ]);
    expect(models[1]).toMatchObject({
      details: { format: 'safetensors', family: 'qwen2', quantization_level: 'BF16' },
    });
    expect(models[2]).toMatchObject({
      model: 'owner--tiny-GGUF:tiny-Q8_0',
      size: tiny.length,
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      details: { parent_model: '', format: 'gguf', parameter_size: '3.7M', quantization_level: 'Q8_0' },
    });
  });

  test.each([
    'owner--tiny-GGUF/tiny-Q8_0',
    'owner--tiny-GGUF/tiny-Q8_0:latest',
    'owner--tiny-GGUF:tiny-Q8_0',
    'hf.co/owner/tiny-GGUF:Q8_0',
    'hf.co/owner/tiny-GGUF',
    'hf:owner/tiny-GGUF:tiny-Q8_0.gguf',
    'owner/tiny-GGUF:tiny-Q8_0',
    'tiny-q8_0',
  ])('a model is found as %s', async (model) => {
    const shown = await ollama.show({ model });
    expect(shown.details.family).toBe('llama');
    expect(shown.modelfile).toMatch(/^FROM owner--tiny-GGUF\/tiny-Q8_0$/m);
    expect(shown.capabilities).toContain('completion');
  });

  test('unusable models are not listed, and showing one states the reason', async () => {
    mkdirSync(at('o--bad'));
    writeFileSync(at('o--bad', 'bad.gguf'), tiny.subarray(0, 300_000));
    expect(await names()).not.toContain('o--bad:bad');
    const shown = ollama.show({ model: 'bad' });
    await expect(shown).rejects.toThrow(/cannot be used: o--bad\/bad.gguf: .*download it again/);
    await ollama.delete({ model: 'bad' });
    expect(existsSync(at('o--bad'))).toBe(false);
  });
});

describe('copy and delete', () => {
  test('a copy is a separate model that takes no space', async () => {
    await ollama.copy({ source: 'tiny-Q8_0', destination: 'mine:v1' });
    expect(await names()).toContain('mine:v1');
    expect((await ollama.show({ model: 'mine:v1' })).details.family).toBe('llama');
    await ollama.copy({ source: 'lathe-tiny', destination: 'me/small' });
    await ollama.copy({ source: 'o--face', destination: 'folder-copy' });
    expect(readdirSync(at('folder-copy')).sort()).toEqual(readdirSync(at('o--face')).sort());
    expect(await names()).toEqual(expect.arrayContaining(['me/small', 'folder-copy']));
    await expect(ollama.copy({ source: 'tiny-Q8_0', destination: 'me/small' })).rejects.toThrow(
      /a model of this name exists already/,
    );
    await expect(ollama.copy({ source: 'absent', destination: 'x' })).rejects.toThrow(
      "model 'absent' not found; GET /api/tags lists the models",
    );
    await ollama.delete({ model: 'me/small' });
    await ollama.delete({ model: 'folder-copy' });
    expect(existsSync(modelsPath('lathe-tiny-q8_0.gguf'))).toBe(true);
    expect(existsSync(at('o--face', 'config.json'))).toBe(true);
    expect(existsSync(at('me'))).toBe(false);
  });

  test.each([
    '../x',
    'a/../../x',
    '/etc/x',
    'a//b',
    '.hidden',
    'a/b/c',
    'a/b/c:d',
    'x.gguf',
    'mmproj',
    'a:b:c',
    'x\u0000',
    'con',
    'm-00001-of-00002',
  ])('no model is called %j', async (destination) => {
    const response = await post('/api/copy', { source: 'lathe-tiny', destination });
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: expect.stringMatching(/is not a valid model name/) },
    ]);
  });

  test('what is deleted is a model of the data directory', async () => {
    await expect(ollama.delete({ model: 'lathe-tiny' })).rejects.toThrow(/embedded in the host/);
    for (const model of ['../../etc', 'absent', '..'])
      await expect(ollama.delete({ model })).rejects.toThrow(/not found/);
    await ollama.delete({ model: 'mine:v1' });
    expect(await names()).not.toContain('mine:v1');
    expect(existsSync(at('owner--tiny-GGUF', 'tiny-Q8_0.gguf'))).toBe(true);
  });

  test('concurrent requests for one name are serialized: one succeeds first', async () => {
    const statuses = async (requests: readonly Promise<Response>[]) =>
      (await Promise.all(requests)).map(({ status }) => status).sort((a, b) => a - b);
    const eight = Array.from({ length: 8 });
    const copy = { source: 'lathe-tiny', destination: 'crowd' };
    const later = Array.from({ length: 7 }, () => 409);
    expect(await statuses(eight.map(() => post('/api/copy', copy)))).toEqual([200, ...later]);
    const made = eight.map((_, index) =>
      post('/api/create', { model: 'crowd', from: 'lathe-tiny', system: `${index}`, stream: false }),
    );
    expect(await statuses(made)).toEqual(eight.map(() => 200));
    const absent = Array.from({ length: 7 }, () => 404);
    const deleted = eight.map(() => post('/api/delete', { model: 'crowd' }, 'DELETE'));
    expect(await statuses(deleted)).toEqual([200, ...absent]);
    expect(readdirSync(at()).filter((name) => name.startsWith('.new-'))).toEqual([]);
  });

  test('partial files of a killed host are removed with the next change', async () => {
    const old = at('.new-00000000', 'left.gguf');
    mkdirSync(dirname(old));
    writeFileSync(old, 'half');
    const young = at('.new-11111111');
    mkdirSync(young);
    const before = new Date(Date.now() - 2 * 24 * 3600 * 1000);
    utimesSync(dirname(old), before, before);
    await ollama.copy({ source: 'lathe-tiny', destination: 'after' });
    expect([existsSync(dirname(old)), existsSync(young)]).toEqual([false, true]);
    rmSync(young, { recursive: true });
    await ollama.delete({ model: 'after' });
  });

  test('pages of another origin change nothing', async () => {
    for (const [path, method] of [
      ['/api/delete', 'DELETE'],
      ['/api/pull', 'POST'],
      ['/api/copy', 'POST'],
      ['/api/create', 'POST'],
      [`/api/blobs/${digestOf(tiny)}`, 'POST'],
    ] as const) {
      const response = await fetch(url + path, {
        method,
        headers: { 'content-type': 'text/plain', origin: 'http://evil.test' },
        body: JSON.stringify({
          model: 'tiny-Q8_0',
          source: 'tiny-Q8_0',
          destination: 'x',
          from: 'tiny-Q8_0',
        }),
      });
      expect([path, response.status]).toEqual([path, 403]);
    }
  });
});

describe('create', () => {
  test('from an upload that matches its digest', async () => {
    const digest = digestOf(tiny);
    const head = () => fetch(`${url}/api/blobs/${digest}`, { method: 'HEAD' });
    expect((await head()).status).toBe(404);
    expect((await upload(tiny)).status).toBe(201);
    expect((await head()).status).toBe(200);
    const statuses = [];
    const made = {
      model: 'made:q8',
      files: { 'x.gguf': digest },
      system: 'be brief',
      parameters: { temperature: 0 },
    };
    for await (const { status } of await ollama.create({ ...made, stream: true })) statuses.push(status);
    expect(statuses.at(-1)).toBe('success');
    expect((await head()).status).toBe(404);
    const shown = await ollama.show({ model: 'made:q8' });
    expect(shown).toMatchObject({ system: 'be brief', parameters: 'temperature 0' });
    expect(shown.modelfile).toMatch(/^PARAMETER temperature 0$/m);
    expect(readFileSync(at('made', 'q8.gguf'))).toEqual(tiny);
  });

  test('from a stored model, with its defaults and new ones; the same name again replaces them', async () => {
    await ollama.create({ model: 'second', from: 'made:q8', parameters: { stop: ['a', 'b'], seed: 1 } });
    expect(await ollama.show({ model: 'second' })).toMatchObject({
      system: 'be brief',
      parameters: 'temperature 0\nseed 1\nstop "a"\nstop "b"',
    });
    await ollama.create({ model: 'second', from: 'lathe-tiny', system: 'shout' });
    expect(await ollama.show({ model: 'second' })).toMatchObject({ system: 'shout', parameters: '' });
    await ollama.create({ model: 'second', from: 'second', parameters: { top_k: 3 } });
    expect(await ollama.show({ model: 'second' })).toMatchObject({ system: 'shout', parameters: 'top_k 3' });
    await ollama.delete({ model: 'second' });
    await ollama.copy({ source: 'lathe-tiny', destination: 'second' });
    expect((await ollama.show({ model: 'second' })).parameters).toBe('');
  });

  test('exists with its defaults or not at all', async () => {
    mkdirSync(at('half', '.lathe.json', 'in the way'), { recursive: true });
    const made = await post('/api/create', {
      model: 'half:made',
      from: 'lathe-tiny',
      system: 'You are half.',
      stream: false,
    });
    expect(made.status).toBe(500);
    expect(existsSync(at('half', 'made.gguf'))).toBe(false);
    rmSync(at('half'), { recursive: true });
  });

  test('from a folder of several files', async () => {
    const files: Record<string, string> = {};
    for (const name of readdirSync(face)) {
      const bytes = readFileSync(join(face, name));
      files[name] = digestOf(bytes);
      expect((await upload(bytes)).status).toBe(201);
    }
    expect(await (await post('/api/create', { model: 'whole', files, stream: false })).json()).toEqual({
      status: 'success',
    });
    expect((await ollama.show({ model: 'whole' })).details).toMatchObject({
      format: 'safetensors',
      family: 'qwen2',
    });
  });

  test('refuses files that are no model, content that does not match, and unsupported members', async () => {
    const other = new TextEncoder().encode('no model');
    const wrong = await upload(other, digestOf(tiny));
    expect([wrong.status, await wrong.json()]).toEqual([
      400,
      { error: expect.stringMatching(/^the content has the digest sha256:[0-9a-f]{64}, expected sha256:/) },
    ]);
    expect((await upload(other, 'sha256:../../x')).status).toBeGreaterThanOrEqual(400);
    expect((await upload(other, 'md5:00')).status).toBe(400);
    await upload(other);
    const files = { 'x.gguf': digestOf(other) };
    const unusable = await post('/api/create', { model: 'bad', files });
    expect([unusable.status, await unusable.json()]).toEqual([
      400,
      { error: expect.stringMatching(/^this cannot be served: /) },
    ]);
    expect(await names()).not.toContain('bad');
    for (const [members, message] of [
      [{}, /name a stored model here, or uploads/],
      [{ files, from: 'lathe-tiny' }, /name a stored model here, or uploads/],
      [{ files: { '../x.gguf': digestOf(tiny) } }, /expected the name of a file/],
      [{ files: { 'x.gguf': digestOf(tiny) } }, /send it with POST \/api\/blobs/],
      [{ files: { 'x.txt': digestOf(other) } }, /is not a GGUF file/],
      [{ from: 'lathe-tiny', template: '{{ .Prompt }}' }, /template: templates in Go's/],
      [{ from: 'lathe-tiny', adapters: { a: 'b' } }, /adapters are not supported/],
      [{ from: 'lathe-tiny', quantize: 'q4_K_M' }, /--quantize/],
      [{ from: 'lathe-tiny', messages: [{ role: 'user', content: 'x' }] }, /stored conversations/],
      [{ from: 'lathe-tiny', parameters: { temperature: -1 } }, /parameters.temperature/],
    ] as const) {
      const response = await post('/api/create', { model: 'bad', stream: false, ...members });
      expect([response.status, ((await response.json()) as { error: string }).error]).toEqual([
        400,
        expect.stringMatching(message),
      ]);
    }
    expect(readdirSync(dirname(at('x'))).filter((name) => name.startsWith('.new'))).toEqual([]);
  });
});
