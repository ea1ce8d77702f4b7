import { z } from 'zod';
import type { LiveRows } from '../../agent/services.ts';
import type { WorkCounts } from '../../agent/sessions/observed.ts';
import { exposition, type Family, type Labels } from '../../telemetry/exposition.ts';
import { raceTimeout } from '../../util/race-timeout.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import type { Served } from '../served.ts';

export interface MetricsOptions {
  readonly served: Served;
  readonly resident: Resident;
  readonly version: string;
  /** Since start-up. */
  readonly countWork: () => Promise<WorkCounts>;
  readonly external: LiveRows;
  /** What more is measured; undefined where nobody watches. */
  readonly watched?: { families(): readonly Family[] } | undefined;
}

/** Who scrapes gives up after ten seconds, usually: a database that hangs must not cost it all the rest. */
const patienceMs = 2000;

/** Undefined where it takes longer, or fails. */
async function inTime<Value>(asked: Promise<Value>): Promise<Value | undefined> {
  const answer = await raceTimeout(
    asked.catch(() => undefined),
    patienceMs,
  );
  return answer === 'late' ? undefined : answer;
}

const metricsText = z.string().meta({ id: 'Metrics' });

/** Prometheus' text format, version 0.0.4. */
export function metricsRoute(options: MetricsOptions): Route {
  return defineRoute({
    method: 'GET',
    path: '/metrics',
    operationId: 'getMetrics',
    summary: 'Counters for Prometheus',
    answers: { 200: { description: 'Its text format.', content: { 'text/plain': metricsText } } },
    async handle() {
      const families = [...(await familiesOf(options)), ...(options.watched?.families() ?? [])];
      return new Response(exposition(families), {
        headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
      });
    },
  });
}

async function familiesOf(options: MetricsOptions): Promise<Family[]> {
  const { served, resident, version, countWork, external } = options;
  const { engine } = resident;
  const [work, open] = await Promise.all([inTime(countWork()), inTime(external.live())]);
  const single =
    (type: 'counter' | 'gauge') =>
    (name: string, help: string, value: number, labels: Labels = {}): Family => ({
      name,
      type,
      help,
      samples: [{ value, labels }],
    });
  const [counter, gauge] = [single('counter'), single('gauge')];
  return [
    gauge('lathe_info', 'The host.', 1, { version }),
    gauge(
      'lathe_start_time_seconds',
      'When the host started, in unix seconds.',
      served.since.getTime() / 1000,
    ),
    gauge('lathe_model_resident', 'Whether a model is resident.', engine ? 1 : 0),
    // Without the database these are not known; everything else is told all the same.
    ...(open ? [gauge('lathe_external_sessions', 'External sessions that are open.', open.length)] : []),
    counter('lathe_completions_total', 'Completions served.', served.completions),
    ...(work
      ? [
          counter('lathe_tasks_total', 'Agent tasks started.', work.tasks),
          counter('lathe_workflow_runs_total', 'Workflow runs started.', work.workflow_runs),
        ]
      : []),
    counter(
      'lathe_measured_completions_total',
      'Completions that the token counters are over.',
      served.measuredCompletions,
    ),
    counter('lathe_prompt_tokens_total', 'Prompt tokens of measured completions.', served.promptTokens),
    counter(
      'lathe_completion_tokens_total',
      'Completion tokens of measured completions.',
      served.completionTokens,
    ),
    counter('lathe_device_losses_total', 'Losses of the GPU.', engine?.stats().deviceLosses ?? 0),
  ];
}
