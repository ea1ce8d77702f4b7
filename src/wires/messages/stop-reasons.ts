import { isRecord } from '../../util/json.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';

type Finish = Extract<AnswerEvent, { type: 'finish' }>;

const reasons: ReadonlyMap<string, { readonly reason: FinishReason; readonly saysMore?: true }> = new Map([
  ['end_turn', { reason: 'stop' }],
  ['stop_sequence', { reason: 'stop' }],
  ['max_tokens', { reason: 'length' }],
  ['tool_use', { reason: 'tool_calls' }],
  ['pause_turn', { reason: 'stop', saysMore: true }],
  ['refusal', { reason: 'content_filter', saysMore: true }],
  ['model_context_window_exceeded', { reason: 'length', saysMore: true }],
]);

/** Reads the stop members of a message; an unknown stop reason becomes `stop` with a detail. */
export function readStop(stopped: {
  readonly stop_reason?: unknown;
  readonly stop_sequence?: unknown;
}): Finish {
  const word = typeof stopped.stop_reason === 'string' ? stopped.stop_reason : 'end_turn';
  const known = reasons.get(word);
  return {
    type: 'finish',
    reason: known?.reason ?? 'stop',
    ...(known && !known.saysMore ? {} : { detail: word }),
    ...(typeof stopped.stop_sequence === 'string' ? { stopText: stopped.stop_sequence } : {}),
  };
}

/** The explanation of a refusal, where the provider sends one. */
export function explanationOf(details: unknown): string | undefined {
  if (!isRecord(details) || details.type !== 'refusal') return undefined;
  return typeof details.explanation === 'string' && details.explanation !== ''
    ? details.explanation
    : undefined;
}

/** Writes the stop members of a message. @param refusal text of the refusal, if any */
export function stopMembers(finish: Finish, refusal: string) {
  const stop_reason = writeStop(finish, refusal !== '');
  return {
    stop_reason,
    stop_sequence: stop_reason === 'stop_sequence' ? (finish.stopText ?? null) : null,
    ...(refusal === '' ? {} : { stop_details: { type: 'refusal', category: null, explanation: refusal } }),
  };
}

function writeStop({ reason, detail, stopText }: Finish, refused: boolean): string {
  if (detail !== undefined && reasons.get(detail)?.reason === reason) return detail;
  switch (reason) {
    case 'stop':
      if (refused) return 'refusal';
      return stopText === undefined ? 'end_turn' : 'stop_sequence';
    case 'length':
      return 'max_tokens';
    case 'tool_calls':
      return 'tool_use';
    case 'content_filter':
      return 'refusal';
  }
}
