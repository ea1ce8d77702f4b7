import { numberIn, type ResultRecord, textIn } from '../records.ts';

/** A part of a request or of an agent's work, on the time line of the whole. */
export interface WaterfallSpan {
  readonly key: string;
  readonly name: string;
  /** What the time was spent on. */
  readonly meaning: string;
  readonly kind: 'wait' | 'queue' | 'prefill' | 'decode' | 'tool' | 'upstream' | 'other';
  /** From the start of the whole. */
  readonly startMs: number;
  readonly durationMs: number;
  /** Page with details. */
  readonly href?: string;
  readonly outcome?: string;
  readonly code?: string;
}

type Phase = Pick<WaterfallSpan, 'name' | 'meaning' | 'kind'> & { readonly durationMs: number };

/** Lays phases out one after another. Phases that took no time are left out. */
function inSequence(phases: readonly Phase[]): WaterfallSpan[] {
  let startMs = 0;
  return phases.flatMap((phase) => {
    const span = { ...phase, key: phase.name, startMs };
    startMs += phase.durationMs;
    return phase.durationMs > 0 ? [span] : [];
  });
}

/**
 * Spans of a completion, which add up to its latency: the host measures the queue, prefill and decode, and the rest is
 * before the queue or after the last token.
 */
export function completionSpans(record: ResultRecord): WaterfallSpan[] {
  const total = numberIn(record, 'total_ms') ?? 0;
  const firstToken = numberIn(record, 'first_token_ms');
  const measured = ['queued_ms', 'prefill_ms', 'decode_ms'].map((name) => numberIn(record, name));
  if (measured.every((value) => value === null))
    return inSequence(
      firstToken === null
        ? [
            {
              name: 'Request',
              meaning: 'The host measured no parts of this request.',
              kind: 'other',
              durationMs: total,
            },
          ]
        : [
            {
              name: 'Until the first token',
              meaning: 'Queue and prefill, and the way to the model where it is at a gateway.',
              kind: 'wait',
              durationMs: Math.min(firstToken, total),
            },
            {
              name: 'Decode',
              meaning: 'From the first token to the end of the answer.',
              kind: 'decode',
              durationMs: Math.max(0, total - firstToken),
            },
          ],
    );
  // Each part is limited to what is left, so that rounding and parallel answers do not exceed the latency.
  let left = total;
  const take = (ms: number | null) => {
    const taken = Math.min(Math.max(ms ?? 0, 0), left);
    left -= taken;
    return taken;
  };
  const [queue, prefill, decode] = measured.map(take) as [number, number, number];
  const before = take(firstToken === null ? left : firstToken - queue - prefill);
  return inSequence([
    {
      name: 'Receive',
      meaning: 'The request is read and checked, and its prompt is tokenized; a model swap is waited for.',
      kind: 'wait',
      durationMs: before,
    },
    {
      name: 'Queue',
      meaning: 'The request waits for a slot of the batch.',
      kind: 'queue',
      durationMs: queue,
    },
    {
      name: 'Prefill',
      meaning: 'The model processes the prompt, up to the first token.',
      kind: 'prefill',
      durationMs: prefill,
    },
    { name: 'Decode', meaning: 'The model generates the answer.', kind: 'decode', durationMs: decode },
    {
      name: 'Deliver',
      meaning: 'The end of the answer is sent, and the client reads it.',
      kind: 'other',
      durationMs: left,
    },
  ]);
}

/** Outcome of a request at the gateway: one that was refused before a provider was asked is not a failed one. */
export const gatewayOutcome = (request: ResultRecord): string =>
  textIn(request, 'ended') === 'refused' ? 'refused' : textIn(request, 'outcome') || textIn(request, 'ended');

/** Spans of a request at the gateway: admission, each attempt at a provider, and relaying the answer. */
export function gatewaySpans(request: ResultRecord, attempts: readonly ResultRecord[]): WaterfallSpan[] {
  const total = numberIn(request, 'total_ms') ?? 0;
  const startsAt = Date.parse(textIn(request, 'ended_at')) - total;
  const upstream = attempts
    .map((record): WaterfallSpan => {
      const startMs = Math.min(Math.max(0, Date.parse(textIn(record, 'started_at')) - startsAt), total);
      return {
        key: textIn(record, 'id'),
        name: `Attempt ${textIn(record, 'attempt')}: ${textIn(record, 'name')}`,
        meaning: `The provider is asked for ${textIn(record, 'model') || 'a model'}, until it answers or fails.`,
        kind: 'upstream',
        startMs,
        durationMs: Math.min(numberIn(record, 'total_ms') ?? 0, total - startMs),
        outcome: textIn(record, 'outcome'),
        code: textIn(record, 'code'),
      };
    })
    .sort((a, b) => a.startMs - b.startMs);
  const firstMs = upstream[0]?.startMs ?? total;
  const endMs = Math.max(firstMs, ...upstream.map((span) => span.startMs + span.durationMs));
  return [
    {
      key: 'admission',
      name: 'Admission',
      meaning: 'The key, the limits and the price are checked, and the maximum cost is held.',
      kind: 'wait' as const,
      startMs: 0,
      durationMs: firstMs,
    },
    ...upstream,
    {
      key: 'relay',
      name: 'Relay',
      meaning: 'The answer is passed on to the client while the provider sends it.',
      kind: 'decode' as const,
      startMs: endMs,
      durationMs: total - endMs,
    },
  ].filter(({ kind, durationMs }) => kind === 'upstream' || durationMs > 0);
}

/**
 * Spans of a task or run: the answers of its model and the calls of its tools, by their start.
 * @param startsAt start of the work, in ms since the Unix epoch
 */
export function workSpans(
  startsAt: number,
  answers: readonly ResultRecord[],
  calls: readonly ResultRecord[],
): WaterfallSpan[] {
  const onTimeLine = (record: ResultRecord) => ({
    key: textIn(record, 'id') + textIn(record, 'started_at'),
    startMs: Math.max(0, Date.parse(textIn(record, 'started_at')) - startsAt),
    durationMs: numberIn(record, 'total_ms') ?? 0,
    outcome: textIn(record, 'outcome'),
    code: textIn(record, 'code'),
  });
  return [
    ...answers.map((record): WaterfallSpan => {
      const turn = textIn(record, 'id').split(':').at(-1) ?? '';
      return {
        ...onTimeLine(record),
        name: `Model, turn ${turn}`,
        meaning: `${textIn(record, 'model') || 'The model'} answers.`,
        kind: 'decode',
        href: `/console/observe/requests/${encodeURIComponent(textIn(record, 'id'))}`,
      };
    }),
    ...calls.map((record): WaterfallSpan => {
      const name = textIn(record, 'name');
      return { ...onTimeLine(record), name: `Tool ${name}`, meaning: 'The tool runs.', kind: 'tool' };
    }),
  ].sort((a, b) => a.startMs - b.startMs);
}

/** Time within a whole that no span covers, in ms. */
export function uncoveredMs(totalMs: number, spans: readonly WaterfallSpan[]): number {
  let coveredTo = 0;
  let covered = 0;
  for (const { startMs, durationMs } of spans.toSorted((a, b) => a.startMs - b.startMs)) {
    const from = Math.max(startMs, coveredTo);
    const to = Math.min(startMs + durationMs, totalMs);
    if (to <= from) continue;
    covered += to - from;
    coveredTo = to;
  }
  return Math.max(0, totalMs - covered);
}
