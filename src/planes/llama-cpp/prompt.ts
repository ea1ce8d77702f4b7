import type { Engine } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { Prompt } from '../../wires/llama-cpp/prompt-schema.ts';
import { contextExceeded, refuseOverlong, requireTokens } from '../turn/encode.ts';

/** Encodes a prompt: BOS precedes a text, and special tokens in a text are parsed. */
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
  // Without a BOS token an empty text has no tokens.
  if (tokenizer.bosId !== undefined) return [tokenizer.bosId];
  throw invalidBody([{ path, message: 'must not be empty for this model' }]);
}
