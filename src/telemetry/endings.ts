import type { Ending } from '../watch/index.ts';
import { otherName } from './names.ts';

/** A reason, not a sentence: what is none does not leave the host, for a sentence may quote what was said. */
const reason = /^[A-Za-z0-9_.-]{1,64}$/;

/** `error.type` of the conventions; undefined where nothing went wrong. */
export function errorTypeOf({ outcome, code, status }: Ending): string | undefined {
  if (outcome === 'ok') return undefined;
  if (code !== undefined) return reason.test(code) ? code : otherName;
  return status === undefined ? outcome : String(status);
}
