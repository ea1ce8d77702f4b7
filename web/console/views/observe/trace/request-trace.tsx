import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { CopyValue } from '../../../../ui/copy.tsx';
import { formatMs, formatNumber, formatTime } from '../../../../ui/format.ts';
import { Facts, Panel } from '../../../../ui/index.tsx';
import { protectedQueryOptions } from '../../../shell/protected-route.tsx';
import { OutcomeBadge } from '../outcome-badge.tsx';
import { fetchRecords } from '../fetch-records.ts';
import { numberIn, textIn } from '../records.ts';
import { explorePath, transcriptPath } from './links.ts';
import { completionSpans } from './spans.ts';
import css from './trace.module.css';
import { TracePage } from './trace-page.tsx';
import { Waterfall } from './waterfall.tsx';

/** One completion: where its time went, and its figures. */
export function RequestTrace({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['observe', 'request', id],
    ...protectedQueryOptions,
    queryFn: async () =>
      (
        await fetchRecords({
          surface: 'completions',
          where: [{ column: 'id', op: 'eq', value: id }],
          limit: 1,
        })
      ).records[0] ?? null,
  });
  return (
    <TracePage query={query} id={id}>
      {(record) => {
        const total = numberIn(record, 'total_ms') ?? 0;
        const firstToken = numberIn(record, 'first_token_ms');
        const decode = numberIn(record, 'decode_ms');
        const completionTokens =
          numberIn(record, 'completion_tokens') ?? numberIn(record, 'completion_tokens_claimed');
        const promptTokens = numberIn(record, 'prompt_tokens') ?? numberIn(record, 'prompt_tokens_claimed');
        const cached = numberIn(record, 'cached_tokens') ?? 0;
        const generating = decode ?? (firstToken === null ? null : total - firstToken);
        const speed =
          numberIn(record, 'decode_tps') ??
          (completionTokens !== null && generating !== null && generating > 0
            ? (completionTokens * 1000) / generating
            : null);
        const subject = textIn(record, 'subject');
        const work = subject === '' ? id : subject;
        return (
          <>
            <Panel title={`Request ${id}`}>
              <Waterfall label="Spans of the request" totalMs={total} spans={completionSpans(record)} />
            </Panel>
            <Panel title="Details">
              <Facts
                facts={[
                  [
                    'Outcome',
                    <OutcomeBadge
                      key="outcome"
                      outcome={textIn(record, 'outcome')}
                      code={textIn(record, 'code')}
                    />,
                  ],
                  ['Started', formatTime(textIn(record, 'started_at'))],
                  ['Latency', formatMs(total)],
                  ['First token', firstToken === null ? 'not measured' : `after ${formatMs(firstToken)}`],
                  [
                    'Speed',
                    speed === null ? 'not measured' : `${formatNumber(speed)} tokens/s while decoding`,
                  ],
                  [
                    'Tokens',
                    `${promptTokens === null ? '-' : formatNumber(promptTokens)} in${cached > 0 ? ` (${formatNumber(cached)} from the prefix cache)` : ''}, ${completionTokens === null ? '-' : formatNumber(completionTokens)} out`,
                  ],
                  ['Model', textIn(record, 'model') || textIn(record, 'requested_model') || 'none'],
                  [
                    'Wire',
                    [
                      ...new Set([textIn(record, 'wire'), textIn(record, 'operation').replaceAll('_', ' ')]),
                    ].join(', '),
                  ],
                  ['By', textIn(record, 'by')],
                  ['Finish', textIn(record, 'finish') || '-'],
                  ['Status', textIn(record, 'status') || '-'],
                  [
                    'Trace id',
                    textIn(record, 'trace_id') === '' ? (
                      '-'
                    ) : (
                      <CopyValue value={textIn(record, 'trace_id')} label="the trace id" />
                    ),
                  ],
                ]}
              />
              <p className={css['links']}>
                {subject !== '' && (
                  <>
                    <Link href={`/console/observe/traces/${encodeURIComponent(subject)}`}>
                      Trace of {subject}
                    </Link>
                    <Link href={`/console/sessions/${encodeURIComponent(subject)}`}>Receipt</Link>
                  </>
                )}
                <Link href={transcriptPath(work)}>Recorded content</Link>
                <Link
                  href={explorePath({
                    surface: 'completions',
                    where: [{ column: 'id', op: 'eq', value: id }],
                  })}
                >
                  All recorded fields
                </Link>
              </p>
            </Panel>
          </>
        );
      }}
    </TracePage>
  );
}
