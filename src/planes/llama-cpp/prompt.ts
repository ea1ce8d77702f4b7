import type { Engine } from '../../engine/index.ts';
import { invalidBodyError } from '../../http/violations.ts';
import type { Prompt } from '../../wires/llama-cpp/prompt-schema.ts';
import { contextExceededError, refuseOverlong, requireKnownTokens } from '../turn/encode.ts';

/** Encodes a prompt: BOS precedes a text, and special tokens in a text are parsed. */
export async function encodePrompt(engine: Engine, prompt: Prompt, path: string): Promise<readonly number[]> {
  const { tokenizer, model } = engine;
  const limit = model.contextLength;
  const ids: number[] = [];
  const pieces = typeof prompt === 'string' ? [prompt] : prompt;
  const tokenIds = pieces.filter((piece) => typeof piece === 'number');
  requireKnownTokens(tokenizer, tokenIds, path);
  for (const [index, piece] of pieces.entries()) {
    if (typeof piece === 'number') {
      ids.push(piece);
      continue;
    }
    await refuseOverlong(tokenizer, piece, limit, 'prompt', { parseSpecial: true });
    for (const id of tokenizer.encode(piece, { parseSpecial: true, addSpecial: index === 0 })) ids.push(id);
    if (ids.length > limit)
      throw contextExceededError(limit, `the prompt has more than ${ids.length - 1}`, 'prompt', ids.length);
  }
  if (ids.length > 0) return ids;
  // Without a BOS token an empty text has no tokens.
  if (tokenizer.bosId !== undefined) return [tokenizer.bosId];
  throw invalidBodyError([{ path, message: 'must not be empty for this model' }]);
}
