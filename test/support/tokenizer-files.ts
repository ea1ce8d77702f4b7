import { readFileSync } from 'node:fs';
import type { Metadata } from '../../src/engine/formats/model-file.ts';
import type { ByteSource } from '../../src/engine/platform.ts';
import { openSource } from './byte-source.ts';

export async function ggufMetadata(path: string): Promise<Metadata> {
  const bytes = readFileSync(path);
  const source: ByteSource = {
    name: path,
    sizeBytes: bytes.length,
    async read(offset, length, into = new Uint8Array(length)) {
      if (offset + length > bytes.length) throw new RangeError(`${path}: read past the end`);
      into.set(bytes.subarray(offset, offset + length));
      return into.subarray(0, length);
    },
    async close() {},
  };
  const file = await openSource(source);
  await file.close();
  return file.metadata;
}

const control = 3;

/** A GPT-2 style vocabulary as metadata; `special` tokens follow the given ids. */
export function bpeMetadata(options: {
  pre: string;
  /** Token text to id. */
  vocabulary: Readonly<Record<string, number>>;
  merges: readonly string[];
  special?: Readonly<Record<string, number>>;
  more?: Readonly<Record<string, number | boolean>>;
}): Metadata {
  const ids = { ...options.vocabulary, ...options.special };
  const size = Object.values(ids).reduce((max, id) => Math.max(max, id), 0) + 1;
  const tokens = Array.from({ length: size }, (_, id) => `[unused ${id}]`);
  const types = new Int32Array(size).fill(1);
  for (const [text, id] of Object.entries(ids)) tokens[id] = text;
  for (const id of Object.values(options.special ?? {})) types[id] = control;
  return new Map<string, Metadata extends ReadonlyMap<string, infer V> ? V : never>([
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', options.pre],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', types],
    ['tokenizer.ggml.merges', options.merges],
    ...Object.entries(options.more ?? {}).map(([name, value]) => [`tokenizer.ggml.${name}`, value] as const),
  ]);
}

/** The lines of a `merges.txt` or `vocab.bpe`. */
export function readMergeLines(path: string): string[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '' && !line.startsWith('#version'));
}

export function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}
