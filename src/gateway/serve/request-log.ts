import { hash } from 'node:crypto';
import { printable } from '../../terminal/printable.ts';
import type {
  AttemptEvent,
  HedgeEvent,
  BreakerEvent,
  GatewayObserver,
  NoticeMembers,
  TraceSink,
  TraceSpan,
} from '../../tracing/index.ts';

export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];

export interface RequestLogOptions {
  readonly format: LogFormat;
  /** Fraction of successful requests that are logged; others always are. */
  readonly sample: number;
  readonly write: (line: string) => void;
  readonly now?: () => Date;
}

type LogEntry = Readonly<Record<string, string | number | boolean | undefined>> & {
  readonly level: 'info' | 'warn' | 'error';
  readonly event: 'request' | 'attempt_failed' | 'hedge' | 'breaker' | 'notice';
};

/**
 * The log of an operator: a line for each request, failed attempt and change of a breaker. It has no content, no secret and
 * no message of a provider.
 */
export class RequestLog implements TraceSink, GatewayObserver {
  readonly #options: RequestLogOptions & { readonly now: () => Date };

  constructor(options: RequestLogOptions) {
    this.#options = { now: () => new Date(), ...options };
  }

  readonly onEnd = (span: TraceSpan): void => {
    if (span.kind === 'gateway') this.#writeRequest(span as TraceSpan<'gateway'>);
  };

  readonly onAttempt = ({ failure, ...attempt }: AttemptEvent): void => {
    if (!failure) return;
    const { requestId, provider, model, attemptNumber, responseMs, retryDelayMs } = attempt;
    this.#write({
      level: 'warn',
      event: 'attempt_failed',
      request_id: requestId,
      provider,
      model,
      attempt: attemptNumber,
      status: failure.status,
      code: failure.code,
      response_ms: round(responseMs),
      retry_in_ms: round(retryDelayMs),
    });
  };

  readonly onHedge = ({ requestId, provider, model, outcome }: HedgeEvent): void => {
    this.#write({ level: 'info', event: 'hedge', request_id: requestId, provider, model, outcome });
  };

  readonly onBreaker = ({ provider, model, isOpen }: BreakerEvent): void => {
    this.#write({
      level: isOpen ? 'error' : 'info',
      event: 'breaker',
      provider,
      model,
      state: isOpen ? 'open' : 'closed',
    });
  };

  /** A message for the operator, as the command line prints it. */
  notice(message: string, members?: NoticeMembers): void {
    this.#write({ level: 'warn', event: 'notice', message, ...members });
  }

  #writeRequest({ id, attributes, result, totalMs, traceparent }: TraceSpan<'gateway'>): void {
    const { outcome = 'failed', status, code } = result ?? {};
    if (outcome === 'ok' && !isSampled(id, this.#options.sample)) return;
    this.#write({
      level: outcome === 'failed' ? 'error' : outcome === 'ok' ? 'info' : 'warn',
      event: 'request',
      request_id: id,
      outcome,
      status,
      code,
      wire: attributes.wire,
      stream: attributes.stream,
      key_id: attributes.keyId,
      account_id: attributes.accountId,
      requested_model: attributes.requestedModel,
      model: attributes.effectiveModel,
      provider: attributes.provider,
      total_ms: round(totalMs),
      admission_ms: round(attributes.admissionMs),
      first_token_ms: round(attributes.firstTokenMs),
      prompt_tokens: attributes.promptTokens,
      cached_tokens: attributes.cachedTokens,
      completion_tokens: attributes.completionTokens,
      cached: attributes.cached,
      // Amounts fit a number up to 9 million dollars.
      cost_nanousd: attributes.costNanousd === undefined ? undefined : Number(attributes.costNanousd),
      trace_id: traceparent?.split('-')[1],
    });
  }

  #write(entry: LogEntry): void {
    const { format, write, now } = this.#options;
    const at = now().toISOString();
    write(
      format === 'json' ? `${JSON.stringify({ ts: at, ...entry })}\n` : `${at} ${printable(textOf(entry))}\n`,
    );
  }
}

/** Requests of one id are logged by all gateways, or by none. */
function isSampled(requestId: string, fraction: number): boolean {
  if (fraction >= 1) return true;
  return Number.parseInt(hash('sha256', requestId).slice(0, 8), 16) < fraction * 2 ** 32;
}

const round = (ms: number | undefined): number | undefined =>
  ms === undefined ? undefined : Math.round(ms * 10) / 10;

/** The entry for a reader: the most important facts first, then the others by name. */
function textOf({ level, event, ...entry }: LogEntry): string {
  if (event === 'notice') return `${level} ${String(entry['message'])}`;
  const members = Object.entries(entry).filter(([, value]) => value !== undefined);
  return `${level} ${event} ${members.map(([name, value]) => `${name}=${quoted(String(value))}`).join(' ')}`;
}

const quoted = (value: string): string => (/[\s"=]/.test(value) ? JSON.stringify(value) : value);
