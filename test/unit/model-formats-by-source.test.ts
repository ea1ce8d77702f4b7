/** Every format from every place: the same metadata and, weight by weight, the same model as from memory. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { digestOf } from '../../src/engine/loading/digest.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { rowsOf } from '../../src/engine/formats/rows.ts';
import type { ModelFiles } from '../../src/engine/platform.ts';
import { droppedFiles, folderHandleFiles } from '../../src/platform/browser-files.ts';
import { hubFiles } from '../../src/platform/node-hub.ts';
import { webFiles } from '../../src/platform/web-folder.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { browserFile, droppedFolder, folderHandle } from '../support/browser-folder.ts';
import { memoryFiles } from '../support/byte-source.ts';
import { fakeHub, sendFile } from '../support/fake-hub.ts';
import { folderContents } from '../support/folder-contents.ts';
import { splitGguf } from '../support/gguf-split-writer.ts';
import { type GgufType, text } from '../support/gguf-writer.ts';
import { serve } from '../support/local-server.ts';
import { mlcFolder } from '../support/mlc-writer.ts';

type Contents = Record<string, Uint8Array<ArrayBuffer>>;
/** A model's files, and the one that is named; without it their folder is. */
interface Given {
  readonly contents: Contents;
  readonly entry?: string;
}

const fixture = (path: string): Contents => {
  const folder = fileURLToPath(new URL(`../fixtures/architectures/${path}`, import.meta.url));
  return Object.fromEntries(
    Object.entries(folderContents(folder)).map(([name, bytes]) => [name, Uint8Array.from(bytes)]),
  );
};
const platform = nodePlatform();
const fromMemory = ({ contents, entry }: Given): Promise<ModelFile> =>
  openModelFile(memoryFiles(contents, entry));

const gguf: Given = { contents: { 'tiny.gguf': fixture('qwen2')['model.gguf']! }, entry: 'tiny.gguf' };

/** The fixture's tensors in three files. */
const splitSet = async (): Promise<Given> => {
  const whole = await fromMemory(gguf);
  const tensors = await Promise.all(
    [...whole.tensors.values()].map(async (tensor) => {
      const bytes = await whole.readRows(tensor, 0, rowsOf(tensor));
      return { name: tensor.name, type: tensor.type as GgufType, shape: tensor.shape, data: () => bytes };
    }),
  );
  const metadata = [['general.architecture', text('qwen2')]] as const;
  return {
    contents: splitGguf('q/tiny', { metadata, tensors }, 3),
    entry: 'q/tiny-00002-of-00003.gguf',
  };
};

const formats: readonly (readonly [string, () => Promise<Given>])[] = [
  ['GGUF', async () => gguf],
  ['a split GGUF', splitSet],
  ['a Hugging Face folder', async () => ({ contents: fixture('qwen2/hf') })],
  ['a Hugging Face folder in shards', async () => ({ contents: fixture('qwen3/hf-sharded') })],
  ['a Hugging Face folder with modules below', async () => ({ contents: fixture('bge/hf') })],
  ['an MLC folder', async () => ({ contents: mlcFolder(fixture('qwen2/hf'), { quantization: 'q4f16_1' }) })],
];

const cleanups: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  await Promise.all(cleanups.map((cleanup) => cleanup()));
});

const quick = { attempts: 2, retryDelayMs: 1, idleMs: 120_000 };
const places: readonly (readonly [string, (given: Given) => Promise<ModelFiles>])[] = [
  [
    'a path',
    async ({ contents, entry = '' }) => {
      const folder = await mkdtemp(join(tmpdir(), 'lathe-place-'));
      cleanups.push(() => rm(folder, { recursive: true }));
      for (const [name, bytes] of Object.entries(contents)) {
        await mkdir(dirname(join(folder, name)), { recursive: true });
        await writeFile(join(folder, name), bytes);
      }
      return platform.modelFiles(join(folder, entry));
    },
  ],
  [
    'a web server',
    async ({ contents, entry = '' }) => {
      const server = await serve((request, response) => {
        const path = decodeURIComponent(request.url ?? '').replace('/models/', '');
        const content = contents[path];
        if (content) sendFile({ path, content }, request, response);
        else response.writeHead(404).end();
      });
      cleanups.push(() => server.close());
      return webFiles(`${server.url}/models/${entry}`, quick);
    },
  ],
  [
    'a hub',
    async ({ contents }) => {
      const files = Object.entries(contents).map(([path, content]) => ({ path, content }));
      const hub = await fakeHub('owner/tiny', []);
      hub.push('c'.repeat(40), files);
      cleanups.push(() => hub.close());
      return hubFiles('hf:owner/tiny', { endpoint: hub.url }, quick);
    },
  ],
  [
    'files that were dropped',
    async ({ contents }) => {
      const [only = '', ...others] = Object.keys(contents);
      return droppedFiles(others.length === 0 ? [browserFile(contents, only)] : droppedFolder(contents));
    },
  ],
  [
    "a browser's private file system",
    async ({ contents, entry }) => folderHandleFiles(folderHandle(contents), entry),
  ],
];

describe.each(formats)('%s', (_, make) => {
  it.each(places)('opens from %s, and is the model that it is from memory', async (__, place) => {
    const given = await make();
    const expected = await fromMemory(given);
    const file = await openModelFile(await place(given));
    expect(file.format).toBe(expected.format);
    expect(file.sizeBytes).toBe(expected.sizeBytes);
    expect(file.metadata).toEqual(expected.metadata);
    expect(file.tensors.size).toBeGreaterThan(10);
    expect(await digestOf(platform, file)).toBe(await digestOf(platform, expected));
    await file.close();
  });
});
