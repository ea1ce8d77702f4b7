import { z } from 'zod';
import type { Engine } from '../../engine/index.ts';
import { isRecord } from '../../util/json.ts';
import { invalidBody, maxViolations } from '../../http/violations.ts';
import { contextExceeded, refuseOverlong } from '../turn/encode.ts';

/** A text, or token ids and texts in any order. */
export type Prompt = string | readonly (string | number)[];

/** Prompts of one request. */
const mostPrompts = 128;
const promptForm = 'expected a text, an array of token ids and texts, {prompt_string}, or an array of those';
const severalForm = 'expected a text, an array of token ids and texts, or {prompt_string}';
const noMedia = 'images and audio cannot be read by this model; leave multimodal_data out';

const isId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isPiece = (value: unknown): value is string | number => typeof value === 'string' || isId(value);

/**
 * llama.cpp's forms of a prompt. An array of texts alone is several prompts, one that also has token ids is one prompt.
 * `several` says whether the answer is an array.
 */
export const prompts = z
  .custom((value) => value !== undefined, { error: '"prompt" is required', abort: true })
  .meta({
    description:
      'A text, an array of token ids and texts, or `{prompt_string}`; or an array of those, which are answered one by one.',
    anyOf: [{ type: 'string' }, { type: 'array' }, { type: 'object' }],
  })
  .transform((value, context): { prompts: readonly Prompt[]; several: boolean } => {
    const fail = (path: readonly (string | number)[], message: string) => {
      if (context.issues.length > maxViolations) return;
      context.issues.push({ code: 'custom', message, path: [...path], input: value });
    };
    const one = (given: unknown, path: readonly number[]): Prompt => {
      if (typeof given === 'string') return given;
      if (isRecord(given) && typeof given['prompt_string'] === 'string') {
        const media = given['multimodal_data'] ?? [];
        if (!Array.isArray(media) || media.length > 0) fail([...path, 'multimodal_data'], noMedia);
        return given['prompt_string'];
      }
      if (Array.isArray(given) && given.length > 0) {
        const wrong = given.findIndex((piece) => !isPiece(piece));
        if (wrong === -1) return given as (string | number)[];
        fail([...path, wrong], 'expected a token id or a text');
      } else {
        const form = path.length === 0 ? promptForm : severalForm;
        fail(path, Array.isArray(given) ? 'must not be empty' : form);
      }
      return '';
    };
    const several =
      Array.isArray(value) &&
      value.length > 0 &&
      (value.some((piece) => typeof piece === 'object' && piece !== null) ||
        value.every((piece) => typeof piece === 'string'));
    if (!several) return { prompts: [one(value, [])], several };
    if (value.length > mostPrompts) {
      fail([], `at most ${mostPrompts} prompts`);
      return { prompts: [], several };
    }
    return { prompts: value.map((each, index) => one(each, [index])), several };
  });

/** The token ids of a prompt: BOS before a text, special tokens written in it read as tokens. */
export async function encodePrompt(engine: Engine, prompt: Prompt, path: string): Promise<readonly number[]> {
  const { tokenizer, model } = engine;
  const limit = model.contextLength;
  const ids: number[] = [];
  for (const [index, piece] of (typeof prompt === 'string' ? [prompt] : prompt).entries()) {
    if (typeof piece === 'number') {
      if (piece >= tokenizer.vocabSize) {
        const message = `no such token: ${piece} (the model has ids 0 to ${tokenizer.vocabSize - 1})`;
        throw invalidBody([{ path, message }]);
      }
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
