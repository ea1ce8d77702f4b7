import { readFileSync } from 'node:fs';
import { tokenizerMetadata } from '../../src/engine/formats/hugging-face/tokenizer.ts';
import { createTokenizer, type Tokenizer } from '../../src/engine/tokenizer/index.ts';

type Json = Readonly<Record<string, unknown>>;
type Ids = readonly (readonly number[])[];

/** A tokenizer.json in the way of a real family, and the ids that Python's `tokenizers` gives each text with it. */
interface Family {
  readonly name: string;
  /** The model's name: families share them. */
  readonly of: string;
  readonly json: Json;
  readonly ids: Ids;
}

/** sentencepiece's own ids, and what a GGUF file says beside the pieces and scores. */
interface SentencePiece {
  readonly name: string;
  readonly pieces: readonly (readonly [text: string, score: number])[];
  /** `precompiled_charsmap` in base64. */
  readonly map: string;
  readonly types: readonly number[];
  readonly ids: Ids;
}

const lines = readFileSync(new URL('../fixtures/tokenizers/reference.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Json);
const having = (member: string) => lines.filter((line) => line[member] !== undefined);
const models = new Map(having('model').map((line) => [line['model'], line['json'] as Json]));

/** test/fixtures/tokenizers/make.py says what there is and how it was made. */
export const referenceTexts = having('texts').flatMap((line) => line['texts'] as readonly string[]);

export const referenceFamilies: readonly Family[] = having('family').map((line) => {
  const { family, of, rest, changes, ids } = line as { [name: string]: unknown; rest: Json; changes: Json };
  const json = { ...rest, model: { ...models.get(of), ...changes } };
  return { name: family as string, of: of as string, json, ids: ids as Ids };
});

export const referenceSentencePieces: readonly SentencePiece[] = having('sentencePiece').map((line) => {
  const { sentencePiece, ...given } = line as unknown as Omit<SentencePiece, 'name'> & {
    sentencePiece: string;
  };
  const pieces = models.get(sentencePiece)?.['vocab'] as SentencePiece['pieces'];
  return { ...given, name: sentencePiece, pieces };
});

export function referenceTokenizer(name: string): Tokenizer {
  const family = referenceFamilies.find((one) => one.name === name);
  if (!family) throw new Error(`the reference has no ${name}`);
  return createTokenizer(tokenizerMetadata({ tokenizer: family.json }));
}
