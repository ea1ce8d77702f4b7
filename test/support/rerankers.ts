/** The tiny rerankers of test/fixtures/rerankers, and the scores of transformers for them. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../fixtures/rerankers/', import.meta.url));

export interface ScoredPair {
  readonly query: string;
  readonly document: string;
  readonly ids: readonly number[];
  /** The logit, in float32. */
  readonly score: number;
  /** The same with keys and values in 16 bits. */
  readonly rounded: number;
  /** The same with all matrices in these types. */
  readonly Q8_0: number;
  readonly Q4_0: number;
}

export interface RerankerFixture {
  readonly name: string;
  readonly context: number;
  readonly pairs: readonly ScoredPair[];
  /** Path of `model.gguf` or of the folder `hf`. */
  readonly path: (file: 'model.gguf' | 'hf') => string;
}

export const rerankers: readonly RerankerFixture[] = [
  'bert-reranker',
  'xlm-roberta-reranker',
  'qwen3-reranker',
].map((name) => ({
  ...(JSON.parse(readFileSync(`${root}${name}/expected.json`, 'utf8')) as Pick<
    RerankerFixture,
    'context' | 'pairs'
  >),
  name,
  path: (file) => `${root}${name}/${file}`,
}));

export function rerankerOf(name: string): RerankerFixture {
  const found = rerankers.find((one) => one.name === name);
  if (!found) throw new Error(`there is no reranker '${name}'`);
  return found;
}
