import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { formatMs, formatNumber, formatTime } from '../../../../ui/format.ts';
import { Facts, Panel } from '../../../../ui/index.tsx';
import { protectedQueryOptions } from '../../../shell/protected-route.tsx';
import { fetchRecords } from '../fetch-records.ts';
import { numberIn, textIn } from '../records.ts';
import { transcriptPath } from './links.ts';
import { uncoveredMs, workSpans } from './spans.ts';
import css from './trace.module.css';
import { TracePage } from './trace-page.tsx';
import { Waterfall } from './waterfall.tsx';
import { StateBadge } from '../../../../ui/state-badge.tsx';

async function fetchWork(id: string) {
  const bySubject = (surface: 'completions' | 'spans') =>
    fetchRecords({
      surface,
      where: [{ column: 'subject', op: 'eq', value: id }],
      order_by: [{ column: 'started_at', direction: 'asc' }],
      limit: 1000,
    });
  const [session, answers, calls] = await Promise.all([
    fetchRecords({ surface: 'sessions', where: [{ column: 'id', op: 'eq', value: id }], limit: 1 }),
    bySubject('completions'),
    bySubject('spans'),
  ]);
  const [work] = session.records;
  return work ? { work, answers: answers.records, calls: calls.records, asOf: session.asOf } : null;
}

const plural = (count: number, noun: string) => `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`;

/** A task or run: the answers of its model and the calls of its tools on one time line. */
export function WorkTrace({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['observe', 'work', id],
    ...protectedQueryOptions,
    queryFn: () => fetchWork(id),
  });
  return (
    <TracePage query={query} id={id}>
      {({ work, answers, calls, asOf }) => {
        const startsAt = Date.parse(textIn(work, 'started_at'));
        const kind = textIn(work, 'kind');
        const spans = workSpans(startsAt, answers, calls);
        const totalMs = Math.max(
          numberIn(work, 'duration_ms') ?? Date.parse(asOf) - startsAt,
          ...spans.map((span) => span.startMs + span.durationMs),
        );
        const spent = (which: string) =>
          spans.filter((span) => span.kind === which).reduce((sum, { durationMs }) => sum + durationMs, 0);
        const tokens = (side: 'prompt' | 'completion') =>
          numberIn(work, `${side}_tokens`) ?? numberIn(work, `${side}_tokens_claimed`) ?? 0;
        return (
          <>
            <Panel title={`${kind === 'run' ? 'Run' : 'Task'} ${id}`}>
              {spans.length === 0 ? (
                <p>No answer of a model and no tool call is recorded of it.</p>
              ) : (
                <Waterfall label={`Spans of the ${kind}`} totalMs={totalMs} spans={spans} />
              )}
            </Panel>
            <Panel title="Details">
              <Facts
                facts={[
                  ['State', <StateBadge key="state" state={textIn(work, 'state')} isRecorded />],
                  ['Started', formatTime(textIn(work, 'started_at'))],
                  ['Duration', formatMs(totalMs)],
                  ['Model', `${formatMs(spent('decode'))} in ${plural(answers.length, 'turn')}`],
                  ['Tools', `${formatMs(spent('tool'))} in ${plural(calls.length, 'call')}`],
                  ['Other', `${formatMs(uncoveredMs(totalMs, spans))}: between turns, and waiting at gates`],
                  [
                    'Tokens',
                    `${formatNumber(tokens('prompt'))} in, ${formatNumber(tokens('completion'))} out`,
                  ],
                  [kind === 'run' ? 'Workflow' : 'Agent', textIn(work, 'name')],
                  ['Answered by', textIn(work, 'model') || '-'],
                ]}
              />
              <p className={css['links']}>
                <Link href={`/console/${kind === 'run' ? 'runs' : 'tasks'}/${encodeURIComponent(id)}`}>
                  Open the {kind}
                </Link>
                <Link href={`/console/sessions/${encodeURIComponent(id)}`}>Receipt</Link>
                <Link href={transcriptPath(id)}>Recorded content</Link>
              </p>
            </Panel>
          </>
        );
      }}
    </TracePage>
  );
}
