import { isRecord } from '../../util/json.ts';
import type { AnswerEvent, FinishReason } from '../core/answer.ts';

type Finish = Extract<AnswerEvent, { type: 'finish' }>;

const finishReasons: ReadonlyMap<string, { readonly reason: FinishReason; readonly hasDetail?: true }> =
  new Map([
    ['end_turn', { reason: 'stop' }],
    ['stop_sequence', { reason: 'stop' }],
    ['max_tokens', { reason: 'length' }],
    ['tool_use', { reason: 'tool_calls' }],
    ['pause_turn', { reason: 'stop', hasDetail: true }],
    ['refusal', { reason: 'content_filter', hasDetail: true }],
    ['model_context_window_exceeded', { reason: 'length', hasDetail: true }],
  ]);

/** Reads the stop members of a message; an unknown stop reason becomes `stop` with a detail. */
export function readStop(members: {
  readonly stop_reason?: unknown;
  readonly stop_sequence?: unknown;
}): Finish {
  const stopReason = typeof members.stop_reason === 'string' ? members.stop_reason : 'end_turn';
  const known = finishReasons.get(stopReason);
  return {
    type: 'finish',
    reason: known?.reason ?? 'stop',
    ...(known && !known.hasDetail ? {} : { detail: stopReason }),
    ...(typeof members.stop_sequence === 'string' ? { stopText: members.stop_sequence } : {}),
  };
}

/** The explanation of a refusal, where the provider sends one. */
export function readRefusalExplanation(details: unknown): string | undefined {
  if (!isRecord(details) || details.type !== 'refusal') return undefined;
  return typeof details.explanation === 'string' && details.explanation !== ''
    ? details.explanation
    : undefined;
}

/** Writes the stop members of a message. @param refusal text of the refusal, if any */
export function writeStopMembers(finish: Finish, refusal: string) {
  const stop_reason = writeStop(finish, refusal !== '');
  return {
    stop_reason,
    stop_sequence: stop_reason === 'stop_sequence' ? (finish.stopText ?? null) : null,
    ...(refusal === '' ? {} : { stop_details: { type: 'refusal', category: null, explanation: refusal } }),
  };
}

function writeStop({ reason, detail, stopText }: Finish, isRefusal: boolean): string {
  if (detail !== undefined && finishReasons.get(detail)?.reason === reason) return detail;
  switch (reason) {
    case 'stop':
      if (isRefusal) return 'refusal';
      return stopText === undefined ? 'end_turn' : 'stop_sequence';
    case 'length':
      return 'max_tokens';
    case 'tool_calls':
      return 'tool_use';
    case 'content_filter':
      return 'refusal';
  }
}
