/**
 * Speed of every kind of tokenizer, encoding and decoding, and the load time of a vocabulary with 262,144 tokens:
 * `node bench/tokenizers.ts`. Vocabularies in ../shared are skipped when the folder is absent.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { tokenizerMetadata } from '../src/engine/formats/hugging-face/tokenizer.ts';
import { createTokenizer, type Tokenizer } from '../src/engine/tokenizer/index.ts';
import { referenceTokenizer } from '../test/support/reference-tokenizers.ts';
import { modelsPath, sharedPath } from '../test/support/shared.ts';
import { bpeMetadata, ggufMetadata, readJson, readMergeLines } from '../test/support/tokenizer-files.ts';
import { median } from './statistics.ts';
import { digits, table } from './table.ts';

const rounds = 5;
const megabyte = 1_000_000;

/** Texts of about a megabyte or more. */
const texts: Readonly<Record<string, string>> = {
  code: filesUnder(['src', 'kernels', 'test', 'bench'], '.ts'),
  prose: filesUnder(['docs'], '.md').repeat(20).slice(0, megabyte),
  'random words': randomText(26, 97, 7),
  'random Unicode': randomText(0x3000, 0x20, 12),
};

function filesUnder(folders: readonly string[], extension: string): string {
  const root = fileURLToPath(new URL('../', import.meta.url));
  return folders
    .flatMap((folder) =>
      readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith(extension))
        .toSorted()
        .map((name) => readFileSync(`${root}${folder}/${name}`, 'utf8')),
    )
    .join('\n');
}

/** Random words of `count` characters starting at code point `first`; words rarely repeat. */
function randomText(count: number, first: number, wordLength: number): string {
  let state = 1;
  const next = (limit: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  const parts: string[] = [];
  for (let length = 0; length < megabyte; ) {
    const word = Array.from({ length: 1 + next(wordLength * 2) }, () =>
      String.fromCharCode(first + next(count)),
    );
    parts.push(word.join(''));
    length += word.length + 1;
  }
  return parts.join(' ').toWellFormed();
}

async function tokenizers(): Promise<[name: string, Tokenizer][]> {
  const named: [string, Tokenizer][] = [];
  const gguf = async (name: string, path: string | undefined) => {
    if (path) named.push([name, createTokenizer(await ggufMetadata(path))]);
  };
  const vocabulary = (name: string) => sharedPath(`data/vocab/ggml-vocab-${name}.gguf`);
  await gguf('byte-level BPE, embedded model (2 k)', modelsPath('lathe-tiny-q8_0.gguf'));
  await gguf('byte-level BPE, GPT-2 (50 k)', vocabulary('gpt-2'));
  const qwen = ['vocab.json', 'merges.txt'].map((name) => sharedPath(`data/tokenizers/qwen2/${name}`));
  if (qwen[0] && qwen[1]) {
    const ids = readJson(qwen[0]) as Record<string, number>;
    const metadata = bpeMetadata({ pre: 'qwen2', vocabulary: ids, merges: readMergeLines(qwen[1]) });
    named.push(['byte-level BPE, Qwen 2 (152 k)', createTokenizer(metadata)]);
  }
  await gguf('SentencePiece BPE by scores, Llama 2 (32 k)', vocabulary('llama-spm'));
  named.push(['SentencePiece BPE by merges (700)', referenceTokenizer('llama-2')]);
  await gguf('WordPiece, BERT (30 k)', vocabulary('bert-bge'));
  named.push(['Unigram (305)', referenceTokenizer('t5')]);
  named.push(['Unigram with bytes (561)', referenceTokenizer('xlm-r')]);
  named.push(['tokenizer.json, byte level (520)', referenceTokenizer('marks')]);
  return named;
}

/** Thousands of tokens per second, encoding and decoding. */
function measureSpeed(tokenizer: Tokenizer, text: string): [encode: number, decode: number] {
  const times = Array.from({ length: rounds }, () => {
    const start = performance.now();
    const ids = tokenizer.encode(text);
    const middle = performance.now();
    tokenizer.decode(ids);
    return [ids.length / (middle - start), ids.length / (performance.now() - middle)] as const;
  });
  return [median(times.map(([encode]) => encode)), median(times.map(([, decode]) => decode))];
}

/** A tokenizer.json of the size of Gemma's: 262,144 pieces and 515,000 merges. */
function largeDocument(): unknown {
  const vocab: Record<string, number> = {};
  const merges: [string, string][] = [];
  const letters = Array.from('▁abcdefghijklmnopqrstuvwxyz');
  const pieces = [...letters];
  letters.forEach((text, id) => (vocab[text] = id));
  for (let i = 0; pieces.length < 262_144; i++) {
    for (const letter of letters) {
      const left = pieces[i] as string;
      vocab[left + letter] = pieces.length;
      pieces.push(left + letter);
      merges.push([left, letter]);
      if (left.length > 1) merges.push([left.charAt(0), left.slice(1) + letter]);
    }
  }
  return {
    added_tokens: [],
    normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
    model: { type: 'BPE', vocab, merges: merges.slice(0, 515_000) },
  };
}

const printLine = (text: string) => process.stdout.write(`${text}\n`);
printLine(
  `${cpus()[0]?.model ?? 'unknown processor'}, Node ${process.version}; thousands of tokens per second\n`,
);
const rows: string[][] = [];
for (const [name, tokenizer] of await tokenizers()) {
  const speeds = Object.values(texts).flatMap((text) => measureSpeed(tokenizer, text));
  rows.push([name, ...speeds.map(digits)]);
}
const head = Object.keys(texts).flatMap((name) => [name, 'decode']);
printLine(table(['tokenizer', ...head], rows));

const document = largeDocument();
const loads = Array.from({ length: rounds }, () => {
  const start = performance.now();
  const metadata = tokenizerMetadata({ tokenizer: document });
  const middle = performance.now();
  createTokenizer(metadata);
  return [middle - start, performance.now() - middle] as const;
});
const [metadataMs, createMs] = [0, 1].map((column) => median(loads.map((load) => load[column] as number)));
printLine(
  `\n262,144 tokens and 515,000 merges: ${digits(metadataMs as number)} ms from tokenizer.json to metadata, ` +
    `${digits(createMs as number)} ms until the tokenizer is ready`,
);
