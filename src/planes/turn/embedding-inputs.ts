import type { Engine, Tokenizer } from '../../engine/index.ts';
import type { Violation } from '../../http/error.ts';
import { invalidBody } from '../../http/violations.ts';
import { eachOf, type TextsOrIds } from '../../wires/core/members.ts';
import { contextExceeded, type InputParam, noSuchToken, refuseOverlong } from './encode.ts';

/** Characters that are encoded before yielding to the event loop. */
const atOnce = 8192;
const breath = () => new Promise((resolve) => setImmediate(resolve));
/** Most inputs that a refusal lists. */
const mostNamed = 8;

/** Upper bound of the average characters per token: text beyond it is not encoded where inputs are truncated. */
const charactersPerToken = 16;

/**
 * Encodes and checks every input before the first one runs; reports all violations at once.
 * @param truncate truncate inputs that are too long, keeping the tokens that end every text
 */
export async function toInputs(
  engine: Pick<Engine, 'tokenizer' | 'model'>,
  input: TextsOrIds,
  truncate = false,
): Promise<readonly (readonly number[])[]> {
  const { tokenizer, model } = engine;
  const single = typeof input === 'string' || typeof input[0] === 'number';
  const inputs: (readonly number[])[] = [];
  const wrong: Violation[] = [];
  const long: { path: InputParam; count: number }[] = [];
  let characters = 0;
  for (const [index, given] of eachOf(input).entries()) {
    const path: InputParam = single ? 'input' : `input.${index}`;
    const one = truncate ? given.slice(0, model.contextLength * charactersPerToken) : given;
    if (typeof one === 'string') {
      if (!truncate) await refuseOverlong(tokenizer, one, model.contextLength, path, { parseSpecial: true });
      characters += one.length;
      if (characters > atOnce) {
        characters = 0;
        await breath();
      }
    }
    const ids =
      typeof one === 'string' ? tokenizer.encode(one, { addSpecial: true, parseSpecial: true }) : one;
    const stranger = ids.find((id) => id >= model.vocabSize);
    if (stranger !== undefined) wrong.push({ path, message: noSuchToken(stranger, model.vocabSize) });
    if (ids.length === 0) wrong.push({ path, message: 'must contain at least one token' });
    const isLong = ids.length > model.contextLength;
    if (isLong && !truncate) long.push({ path, count: ids.length });
    inputs.push(isLong ? cut(tokenizer, ids, model.contextLength) : ids);
  }
  if (wrong.length > 0) throw invalidBody(wrong);
  const [first] = long;
  if (!first) return inputs;
  const shown = long.slice(0, mostNamed).map(({ path, count }) => `${path} has ${count}`);
  const more = long.length > shown.length ? [`${long.length - shown.length} more are too long`] : [];
  throw contextExceeded(model.contextLength, [...shown, ...more].join(', '), first.path);
}

function cut(tokenizer: Tokenizer, ids: readonly number[], limit: number): readonly number[] {
  const closing = tokenizer.encode('', { addSpecial: true }).at(-1);
  const closes = closing !== undefined && closing !== tokenizer.bosId && closing === ids.at(-1);
  return closes ? [...ids.slice(0, limit - 1), closing] : ids.slice(0, limit);
}
