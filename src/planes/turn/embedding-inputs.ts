import type { Engine, Tokenizer } from '../../engine/index.ts';
import type { Violation } from '../../http/error.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { splitInputs, type TextsOrIds } from '../../wires/core/members.ts';
import { contextExceededError, type InputParam, unknownTokenMessage, refuseOverlong } from './encode.ts';

/** Characters that are encoded before yielding to the event loop. */
const charactersPerYield = 8192;
const yieldToEventLoop = () => new Promise((resolve) => setImmediate(resolve));
/** Most inputs that a refusal lists. */
const maxNamed = 8;

/** Upper bound of the average characters per token: text beyond it is not encoded where inputs are truncated. */
const charactersPerToken = 16;

/**
 * Encodes and checks every input before the first one runs; reports all violations at once.
 * @param truncate truncate inputs that are too long, keeping the tokens that end every text
 */
export async function encodeInputs(
  engine: Pick<Engine, 'tokenizer' | 'model'>,
  input: TextsOrIds,
  truncate = false,
): Promise<readonly (readonly number[])[]> {
  const { tokenizer, model } = engine;
  const isSingle = typeof input === 'string' || typeof input[0] === 'number';
  const inputs: (readonly number[])[] = [];
  const violations: Violation[] = [];
  const tooLong: { path: InputParam; count: number }[] = [];
  let characters = 0;
  for (const [index, element] of splitInputs(input).entries()) {
    const path: InputParam = isSingle ? 'input' : `input.${index}`;
    const truncated = truncate ? element.slice(0, model.contextLength * charactersPerToken) : element;
    if (typeof truncated === 'string') {
      if (!truncate)
        await refuseOverlong(tokenizer, truncated, model.contextLength, path, { parseSpecial: true });
      characters += truncated.length;
      if (characters > charactersPerYield) {
        characters = 0;
        await yieldToEventLoop();
      }
    }
    const ids =
      typeof truncated === 'string'
        ? tokenizer.encode(truncated, { addSpecial: true, parseSpecial: true })
        : truncated;
    const unknownId = ids.find((id) => id >= model.vocabSize);
    if (unknownId !== undefined)
      violations.push({ path, message: unknownTokenMessage(unknownId, model.vocabSize) });
    if (ids.length === 0) violations.push({ path, message: 'must contain at least one token' });
    const isLong = ids.length > model.contextLength;
    if (isLong && !truncate) tooLong.push({ path, count: ids.length });
    inputs.push(isLong ? truncateIds(tokenizer, ids, model.contextLength) : ids);
  }
  if (violations.length > 0) throw invalidBodyError(violations);
  const [first] = tooLong;
  if (!first) return inputs;
  const shown = tooLong.slice(0, maxNamed).map(({ path, count }) => `${path} has ${count}`);
  const more = tooLong.length > shown.length ? [`${tooLong.length - shown.length} more are too long`] : [];
  throw contextExceededError(model.contextLength, [...shown, ...more].join(', '), first.path);
}

function truncateIds(tokenizer: Tokenizer, ids: readonly number[], limit: number): readonly number[] {
  const closing = tokenizer.encode('', { addSpecial: true }).at(-1);
  const endsWithClosing = closing !== undefined && closing !== tokenizer.bosId && closing === ids.at(-1);
  return endsWithClosing ? [...ids.slice(0, limit - 1), closing] : ids.slice(0, limit);
}
