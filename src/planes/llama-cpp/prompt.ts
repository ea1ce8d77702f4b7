import type { Engine } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { Prompt } from '../../wires/llama-cpp/prompt-schema.ts';
import { contextExceeded, refuseOverlong, requireTokens } from '../turn/encode.ts';

/** The token ids of a prompt: BOS before a text, special tokens written in it read as tokens. */
export async function encodePrompt(engine: Engine, prompt: Prompt, path: string): Promise<readonly number[]> {
  const { tokenizer, model } = engine;
  const limit = model.contextLength;
  const ids: number[] = [];
  const pieces = typeof prompt === 'string' ? [prompt] : prompt;
  const given = pieces.filter((piece) => typeof piece === 'number');
  requireTokens(tokenizer, given, path);
  for (const [index, piece] of pieces.entries()) {
    if (typeof piece === 'number') {
      ids.push(piece);
      continue;
    }
    await refuseOverlong(tokenizer, piece, limit, 'prompt', { parseSpecial: true });
    for (const id of tokenizer.encode(piece, { parseSpecial: true, addSpecial: index === 0 })) ids.push(id);
    if (ids.length > limit)
      throw contextExceeded(limit, `the prompt has more than ${ids.length - 1}`, 'prompt');
  }
  if (ids.length > 0) return ids;
  // A model without BOS has nothing to begin an empty text with.
  if (tokenizer.bosId !== undefined) return [tokenizer.bosId];
  throw invalidBody([{ path, message: 'must not be empty for this model' }]);
}
