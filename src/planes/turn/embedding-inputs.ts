import type { Engine, Tokenizer } from '../../engine/index.ts';
import type { Violation } from '../../http/error.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { splitInputs, type TextsOrIds } from '../../wires/core/members.ts';
import { createPace, encodeBeginning, maxCharacters, tooManyCharacters } from './bounded-encoding.ts';
import { contextExceededError, type InputParam, unknownTokenMessage, refuseOverlong } from './encode.ts';

/** Most inputs that a refusal lists. */
const maxNamed = 8;

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
  /** `size` is a number of tokens, or of characters in words. */
  const tooLong: { path: InputParam; size: string }[] = [];
  const { contextLength } = model;
  const pace = createPace();
  const encode = (text: string) => tokenizer.encode(text, { addSpecial: true, parseSpecial: true });
  const encodeText = async (text: string, path: InputParam): Promise<readonly number[] | undefined> => {
    if (truncate) return await encodeBeginning(text, contextLength, { encode, contextLength, pace });
    if (text.length > maxCharacters(contextLength)) return undefined;
    await refuseOverlong(tokenizer, text, contextLength, path, { parseSpecial: true });
    await pace(text.length);
    return encode(text);
  };
  for (const [index, element] of splitInputs(input).entries()) {
    const path: InputParam = isSingle ? 'input' : `input.${index}`;
    const ids = typeof element === 'string' ? await encodeText(element, path) : element;
    if (ids === undefined) {
      tooLong.push({ path, size: tooManyCharacters(element as string, contextLength) });
      continue;
    }
    const unknownId = ids.find((id) => id >= model.vocabSize);
    if (unknownId !== undefined)
      violations.push({ path, message: unknownTokenMessage(unknownId, model.vocabSize) });
    if (ids.length === 0) violations.push({ path, message: 'must contain at least one token' });
    const isLong = ids.length > contextLength;
    if (isLong && !truncate) tooLong.push({ path, size: String(ids.length) });
    inputs.push(isLong ? truncateIds(tokenizer, ids, contextLength) : ids);
  }
  if (violations.length > 0) throw invalidBodyError(violations);
  const [first] = tooLong;
  if (!first) return inputs;
  const shown = tooLong.slice(0, maxNamed).map(({ path, size }) => `${path} has ${size}`);
  const more = tooLong.length > shown.length ? [`${tooLong.length - shown.length} more are too long`] : [];
  throw contextExceededError(contextLength, [...shown, ...more].join(', '), first.path);
}

function truncateIds(tokenizer: Tokenizer, ids: readonly number[], limit: number): readonly number[] {
  const closing = tokenizer.encode('', { addSpecial: true }).at(-1);
  const endsWithClosing = closing !== undefined && closing !== tokenizer.bosId && closing === ids.at(-1);
  return endsWithClosing ? [...ids.slice(0, limit - 1), closing] : ids.slice(0, limit);
}
