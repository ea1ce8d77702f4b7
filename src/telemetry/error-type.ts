import type { SpanResult } from '../tracing/index.ts';
import { otherLabel } from './label-names.ts';

/** Format of an error code. Other texts are not exported, because they may quote conversation content. */
const codePattern = /^[A-Za-z0-9_.-]{1,64}$/;

/** The `error.type` attribute of the GenAI semantic conventions; undefined after success. */
export function errorTypeOf({ outcome, code, status }: SpanResult): string | undefined {
  if (outcome === 'ok') return undefined;
  if (code !== undefined) return codePattern.test(code) ? code : otherLabel;
  return status === undefined ? outcome : String(status);
}
