import { HttpError } from './error.ts';

const most = {
  /** Levels of arrays and objects; schemas and conversations of real clients have a few dozen. */
  levels: 200,
  /** Arrays, objects and members: parsing more of them takes seconds in which nobody else is served. */
  parts: 1_000_000,
};

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Refuses JSON that is nested so deep that whoever walks it (a template, a schema, JSON.stringify) runs out of stack,
 * or of so many parts that parsing it holds up everybody. Text that is no JSON may pass.
 */
export function refuseHeavyJson(json: Uint8Array): void {
  let depth = 0;
  let parts = 0;
  let inText = false;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (inText) {
      if (byte === backslash) at++;
      else if (byte === quote) inText = false;
    } else if (byte === quote) {
      inText = true;
    } else if (byte === openBracket || byte === openBrace) {
      parts++;
      if (++depth > most.levels) {
        const message = `The body nests arrays and objects more than ${most.levels} deep; send a flatter one.`;
        throw new HttpError(400, 'nested_too_deep', message);
      }
    } else if (byte === colon) {
      parts++;
    } else if (byte === closeBracket || byte === closeBrace) {
      depth--;
    }
  }
  if (parts <= most.parts) return;
  const message = `The body has more than ${most.parts} arrays, objects and members; send a smaller one.`;
  throw new HttpError(400, 'too_many_parts', message);
}
