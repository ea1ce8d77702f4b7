import type { Tokenizer } from '../../engine/index.ts';
import { sleep } from '../../util/sleep.ts';
import { GrammarError } from '../types.ts';
import type { GrammarVocabulary } from './messages.ts';

/**
 * Collects the tokens of a model for a grammar worker, in slices, so that a large vocabulary does not block other work.
 * @throws GrammarError `invalid_grammar` when the model has no end token
 */
export async function collectVocabulary(tokenizer: Tokenizer, vocabSize: number): Promise<GrammarVocabulary> {
  const count = Math.min(tokenizer.vocabSize, vocabSize);
  const ends = new Uint32Array(count);
  const parts: Uint8Array[] = [];
  let length = 0;
  for (let id = 0; id < count; id++) {
    const bytes =
      tokenizer.isControl(id) || tokenizer.endIds.has(id) ? new Uint8Array() : tokenizer.tokenBytes(id);
    parts.push(bytes);
    length += bytes.length;
    ends[id] = length;
    if (id % 20_000 === 19_999) await sleep(0);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  const endIds = [...tokenizer.endIds].filter((id) => id < vocabSize);
  if (endIds.length === 0)
    throw new GrammarError(
      'invalid_grammar',
      'this model has no end token, so a grammar could not end its answer',
    );
  return { bytes, ends, size: vocabSize, endIds };
}
