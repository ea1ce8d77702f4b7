import type { Ending } from '../watch/index.ts';
import { otherName } from './names.ts';

/** Format of an error code. Other texts are not exported, because they may quote conversation content. */
const reason = /^[A-Za-z0-9_.-]{1,64}$/;

/** The `error.type` attribute of the GenAI semantic conventions; undefined after success. */
export function errorTypeOf({ outcome, code, status }: Ending): string | undefined {
  if (outcome === 'ok') return undefined;
  if (code !== undefined) return reason.test(code) ? code : otherName;
  return status === undefined ? outcome : String(status);
}
