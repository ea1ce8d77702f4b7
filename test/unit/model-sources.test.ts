import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadEngine } from '../../src/engine/index.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import type { ModelFiles } from '../../src/engine/platform.ts';
import { droppedFiles, folderHandleFiles } from '../../src/platform/browser-files.ts';
import { hubFiles } from '../../src/platform/node-hub.ts';
import { webFiles } from '../../src/platform/web-folder.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { browserFile, droppedFolder, folderHandle } from '../support/browser-folder.ts';
import { type FakeHub, fakeHub, type HubFile, sendFile } from '../support/fake-hub.ts';
import { splitGguf, splitPartName } from '../support/gguf-split-writer.ts';
import { type GgufFile, ggufBytes, text } from '../support/gguf-writer.ts';
import { type LocalServer, serve } from '../support/local-server.ts';
import { tinyFolder } from '../support/tiny-folder.ts';

const model: GgufFile = {
  metadata: [['general.name', text('tiny')]],
  tensors: ['a', 'b', 'c'].map((name, index) => ({
    name,
    type: 'F32',
    shape: [2, 2],
    data: () => new Uint8Array(16).fill(index + 1),
  })),
};
const contents: Readonly<Record<string, Uint8Array<ArrayBuffer>>> = {
  'tiny.gguf': ggufBytes(model),
  ...splitGguf('parts/tiny', model, 2),
  'config.json': new TextEncoder().encode('{}'),
};
const part = splitPartName('parts/tiny', 2, 2);
const quick = { attempts: 2, retryDelayMs: 1, idleMs: 120_000 };

/** Opens and reads a tensor of it, which must be right. */
const readsRight = async (files: ModelFiles): Promise<void> => {
  const file = await openModelFile(files);
  const tensor = file.tensors.get('c');
  expect(tensor && (await file.readRows(tensor, 1, 1))).toEqual(new Uint8Array(8).fill(3));
  await file.close();
};
const bytesOf = async (files: ModelFiles, name: string): Promise<Uint8Array | undefined> => {
  const source = await files.open(name);
  if (!source) return undefined;
  const bytes = await source.read(0, source.sizeBytes);
  await source.close();
  return bytes;
};
const leavesAlone = async (files: ModelFiles) => {
  for (const name of ['../secret', 'sub/../../secret', '/etc/passwd', '', '.', 'a//b', '..\\secret'])
    await expect(files.open(name), name).rejects.toMatchObject({ code: 'corrupt' });
};

describe('a folder on disk', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lathe-folder-'));
    await mkdir(join(folder, 'parts'));
    await mkdir(join(folder, '.git'));
    await writeFile(join(folder, '.git', 'x.gguf'), '');
    for (const [name, bytes] of Object.entries(contents)) await writeFile(join(folder, name), bytes);
    await symlink(join(folder, 'tiny.gguf'), join(folder, 'link.gguf'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('lists its files and those of folders below, but hidden ones', async () => {
    const files = await nodePlatform().modelFiles(folder);
    expect(files.entry).toBeUndefined();
    expect(await files.list()).toEqual([...Object.keys(contents), 'link.gguf'].sort());
    expect(await bytesOf(files, part)).toEqual(contents[part]);
    expect(await files.open('nothing.json')).toBeUndefined();
    expect(await files.open('tiny.gguf/below')).toBeUndefined();
    await leavesAlone(files);
  });

  it('opens by a file, a part of a split set, a link, and an address', async () => {
    for (const name of ['tiny.gguf', part, 'link.gguf'])
      await readsRight(await nodePlatform().modelFiles(join(folder, name)));
    await readsRight(await nodePlatform().modelFiles(`file://${folder}/tiny.gguf`));
    await readsRight(await nodePlatform().modelFiles(join(folder, 'parts')));
  });
});

describe('a folder on a web server', () => {
  let server: LocalServer;
  const requestedPaths: string[] = [];
  beforeAll(async () => {
    server = await serve((request, response) => {
      const { pathname, search } = new URL(request.url ?? '/', 'http://web');
      requestedPaths.push(`${pathname}${search}`);
      const content = contents[decodeURIComponent(pathname).replace('/models/', '')];
      if (content) sendFile({ path: pathname, content }, request, response);
      else response.writeHead(404).end();
    });
  });
  afterAll(() => server.close());

  it('is what ends in a slash, and what has a configuration below it', async () => {
    for (const path of ['/models/', '/models', '/models?key=1']) {
      const files = await webFiles(`${server.url}${path}`, quick);
      expect(files.entry).toBeUndefined();
      expect(await files.list()).toBeUndefined();
      expect(await bytesOf(files, part)).toEqual(contents[part]);
      expect(await files.open('nothing.json')).toBeUndefined();
      await leavesAlone(files);
    }
    expect(requestedPaths).toContain(`/models/${part}?key=1`);
  });

  it('is not asked for when a file is named; parts of a split set are found beside it', async () => {
    requestedPaths.length = 0;
    await readsRight(await webFiles(`${server.url}/models/tiny.gguf`, quick));
    expect(new Set(requestedPaths)).toEqual(new Set(['/models/tiny.gguf']));
    await readsRight(await webFiles(`${server.url}/models/${part}`, quick));
  });

  it('may answer 403 for a missing file, as buckets without list permission do', async () => {
    const given = new Map<string, Uint8Array<ArrayBuffer>>();
    const bucket = await serve((request, response) => {
      const content = given.get((request.url ?? '').replace('/models/', ''));
      if (content) sendFile({ path: '', content }, request, response);
      else response.writeHead(403).end();
    });
    const folder = await webFiles(`${bucket.url}/models/`, quick);
    // Nothing is given at all: it is the access.
    await expect(openModelFile(folder)).rejects.toMatchObject({ code: 'forbidden' });
    await expect(openModelFile(await webFiles(`${bucket.url}/models/x.gguf`))).rejects.toMatchObject({
      code: 'forbidden',
    });
    for (const [name, bytes] of Object.entries(tinyFolder('qwen2'))) given.set(name, Uint8Array.from(bytes));
    for (const path of ['/models/', '/models', '/models/model.safetensors']) {
      const file = await openModelFile(await webFiles(`${bucket.url}${path}`, quick));
      expect(file.format).toBe('hugging-face');
      await file.close();
    }
    given.delete('tokenizer.json');
    await expect(openModelFile(await webFiles(`${bucket.url}/models`, quick))).rejects.toThrow(
      /no file 'tokenizer\.json'/,
    );
    await bucket.close();
  });

  it('that holds neither is a file that is missing', async () => {
    const files = await webFiles(`${server.url}/other`, quick);
    expect(files.entry).toBe('other');
    await expect(openModelFile(files)).rejects.toMatchObject({ code: 'not_found' });
  });
});

/** As large weights are read. */
const byRanges = { ...quick, wholeBytes: 0 };

describe('a repository of a hub', () => {
  let hub: FakeHub;
  afterEach(() => hub.close());
  const open = async (paths: readonly string[], location: string, token?: string) => {
    hub = await fakeHub('owner/tiny', []);
    hub.files = paths.map((path) => ({
      path,
      content: path.includes('-of-')
        ? (contents[path.replace('q/', 'parts/')] ?? new Uint8Array())
        : ggufBytes(model),
    }));
    if (token !== undefined) hub.token = token;
    return await hubFiles(location, { endpoint: hub.url, token }, byRanges);
  };

  it('is read by ranges: the best file, or the one that is named', async () => {
    const files = await open(['tiny-Q8_0.gguf', 'tiny-Q4_K_M.gguf', 'README.md'], 'hf:owner/tiny');
    expect(files.entry).toBe('tiny-Q8_0.gguf');
    await readsRight(files);
    const other = await hubFiles('hf:owner/tiny:q4_k_m@main', { endpoint: hub.url }, byRanges);
    expect(other.entry).toBe('tiny-Q4_K_M.gguf');
    expect(await other.list()).toContain('README.md');
    expect(await other.open('nothing')).toBeUndefined();
    await leavesAlone(other);
    expect(hub.log.every((line) => line.startsWith('GET'))).toBe(true);
  });

  it('gives all parts of a split set', async () => {
    const names = [1, 2].map((one) => splitPartName('q/tiny', one, 2));
    await readsRight(await open(names, 'hf:owner/tiny'));
  });

  it('is the commit that its branch stood for when it was listed, also when another comes', async () => {
    hub = await fakeHub('owner/tiny', []);
    const [first, second] = ['1'.repeat(40), '2'.repeat(40)] as const;
    const versionOf = (value: number) => [
      { path: 'tiny-F16.gguf', content: ggufBytes(model) },
      { path: 'x.json', content: new Uint8Array(64).fill(value), small: true },
    ];
    hub.push(first, versionOf(1));
    const files = await hubFiles('hf:owner/tiny', { endpoint: hub.url }, byRanges);
    hub.push(second, versionOf(2));
    expect(await bytesOf(files, 'x.json')).toEqual(new Uint8Array(64).fill(1));
    for (const revision of ['main', second]) {
      const newer = await hubFiles(`hf:owner/tiny@${revision}`, { endpoint: hub.url }, byRanges);
      expect(await bytesOf(newer, 'x.json')).toEqual(new Uint8Array(64).fill(2));
    }
  });

  it('whose server tells no commit must give files of the sizes that it lists', async () => {
    const files = await open(['tiny-F16.gguf'], 'hf:owner/tiny');
    hub.files = [{ path: 'tiny-F16.gguf', content: new Uint8Array(10) }];
    await expect(files.open('tiny-F16.gguf')).rejects.toMatchObject({ code: 'changed' });
  });

  it('may name each answer by another ETag', async () => {
    const files = await open(['tiny-F16.gguf'], 'hf:owner/tiny');
    let answers = 0;
    hub.fault = (_, response) => {
      response.setHeader('etag', `"${(answers += 1)}"`);
      return false;
    };
    await readsRight(files);
    expect(answers).toBeGreaterThan(2);
  });

  it('is shown the token, and no other server is', async () => {
    const files = await open(['tiny-F16.gguf'], 'hf:owner/tiny', 'secret');
    const storageSaw: (string | undefined)[] = [];
    const storage = await serve((request, response) => {
      storageSaw.push(request.headers.authorization);
      sendFile({ path: 'x', content: ggufBytes(model) }, request, response);
    });
    hub.fault = (request, response) => {
      if (!request.url?.includes('/resolve/') || request.headers.authorization !== 'Bearer secret')
        return false;
      response.writeHead(302, { location: `${storage.url}/blob` }).end();
      return true;
    };
    await readsRight(files);
    expect(storageSaw.length).toBeGreaterThan(1);
    expect(new Set(storageSaw)).toEqual(new Set([undefined]));
    await storage.close();
  });

  it('is refused with what to do: a wrong reference, a missing repository, revision or file', async () => {
    for (const location of ['hf:', 'hf:owner', 'hf:owner/a/b', 'hf:owner/..', 'hf:owner/x:'])
      await expect(hubFiles(location, {}, byRanges), location).rejects.toMatchObject({
        code: 'invalid_reference',
      });
    await expect(open(['tiny-F16.gguf'], 'hf:owner/tiny:Q8_0')).rejects.toThrow(/no GGUF file 'Q8_0'/);
    await expect(hubFiles('hf:owner/other', { endpoint: hub.url }, byRanges)).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(hubFiles('hf:owner/tiny@v9', { endpoint: hub.url }, byRanges)).rejects.toThrow(
      /revision 'v9'/,
    );
  });
});

describe('what a hub lists of a file', () => {
  let hub: FakeHub;
  afterEach(() => hub.close());
  const wrongChecksum = 'ab'.repeat(32);
  const gguf = { path: 'tiny-F16.gguf', content: ggufBytes(model) };
  const json = { path: 'config.json', content: new TextEncoder().encode('{}'), small: true };
  const open = async (files: HubFile[], options: { wholeBytes?: number } = {}) => {
    hub = await fakeHub('owner/tiny', files);
    return await hubFiles('hf:owner/tiny', { endpoint: hub.url }, { ...quick, ...options });
  };

  it('is checked where all of it is read: small weights, and what lies beside them', async () => {
    const files = await open([gguf, json]);
    expect(files.notes).toBeUndefined();
    await readsRight(files);
    expect(await bytesOf(files, 'config.json')).toEqual(json.content);
  });

  it.each([
    ['weights', { ...gguf, wrongChecksum }, 'sha256'],
    ['a file that git holds', { ...json, wrongChecksum: 'cd'.repeat(20) }, 'git-sha1'],
  ])('refuses %s with another content', async (_, wrong, kind) => {
    const files = await open([wrong, ...(wrong.path === gguf.path ? [] : [gguf])]);
    const opening = files.open(wrong.path);
    await expect(opening).rejects.toMatchObject({ code: 'checksum' });
    await expect(opening).rejects.toThrow(
      new RegExp(
        `${wrong.path} does not match the ${kind} that the hub lists \\(expected ${wrong.wrongChecksum}, got `,
      ),
    );
  });

  it('says of large weights that they are not checked, and still checks what lies beside them', async () => {
    const files = await open([{ ...gguf, wrongChecksum }, json], { wholeBytes: 16 });
    expect(files.notes).toEqual([
      "hf:owner/tiny: the weights are read by ranges and not verified against the hub's checksums; 'pull' downloads and verifies them",
    ]);
    await readsRight(files);
    hub.files = [gguf, { ...json, content: new TextEncoder().encode('[]') }];
    await expect(files.open('config.json')).rejects.toMatchObject({ code: 'checksum' });
  });

  it('is reported as a notice when the model is loaded', async () => {
    const files = await open([gguf], { wholeBytes: 16 });
    const notices: string[] = [];
    const platform = { ...nodePlatform(), modelFiles: async () => files };
    // It is no whole model, so loading ends after the notes.
    await expect(
      loadEngine(platform, { model: 'hf:owner/tiny', onNotice: (message) => void notices.push(message) }),
    ).rejects.toThrow();
    expect(notices).toEqual(files.notes);
  });
});

describe('files of a browser', () => {
  const file = (name: string) => browserFile(contents, name);
  const handle = (name: string, prefix = '') => folderHandle(contents, name, prefix);

  it('that are dropped open alone or as the folder that they make', async () => {
    const alone = droppedFiles([file('tiny.gguf')]);
    expect(alone.entry).toBe('tiny.gguf');
    await readsRight(alone);
    const dropped = droppedFolder(contents);
    const all = droppedFiles(dropped.filter(({ name }) => name !== 'tiny.gguf'));
    expect(all.entry).toBeUndefined();
    await readsRight(all);
    expect(await all.open('../secret')).toBeUndefined();
  });

  it('in its private file system open by name and as a folder, without leaving it', async () => {
    const files = folderHandleFiles(handle('models'));
    expect(await files.list()).toEqual(Object.keys(contents).sort());
    expect(await bytesOf(files, part)).toEqual(contents[part]);
    expect(await files.open('nothing')).toBeUndefined();
    expect(await files.open('nowhere/nothing')).toBeUndefined();
    await leavesAlone(files);
    await readsRight(folderHandleFiles(handle('models'), part));
    await readsRight(folderHandleFiles(handle('parts', 'parts/')));
  });

  it('refuse ranges outside and targets that are too small, and say when they were changed', async () => {
    const source = await droppedFiles([file('tiny.gguf')]).open('tiny.gguf');
    if (!source) throw new Error('no file');
    const into = new Uint8Array(10);
    expect((await source.read(3, 8, into)).buffer).toBe(into.buffer);
    expect(into.subarray(0, 8)).toEqual(contents['tiny.gguf']?.subarray(3, 11));
    await expect(source.read(source.sizeBytes - 1, 2)).rejects.toThrow(RangeError);
    await expect(source.read(-1, 2)).rejects.toThrow(RangeError);
    await expect(source.read(0, 11, into)).rejects.toThrow(RangeError);
    const gone = file('tiny.gguf');
    gone.slice = () => {
      throw new DOMException('changed on disk', 'NotReadableError');
    };
    const changed = await droppedFiles([gone]).open('tiny.gguf');
    await expect(changed?.read(0, 4)).rejects.toMatchObject({ code: 'changed' });
  });
});
