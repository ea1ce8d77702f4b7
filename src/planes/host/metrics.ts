import { z } from 'zod';
import type { LiveSessionSource } from '../../agent/services.ts';
import type { WorkCounts } from '../../agent/sessions/served-sessions.ts';
import { formatExposition, type MetricFamily, type Labels } from '../../telemetry/prometheus-text.ts';
import { raceTimeout } from '../../util/race-timeout.ts';
import type { Resident } from '../resident.ts';
import { countDeviceLosses } from './facts.ts';
import { hostEnvelope } from '../../http/error.ts';
import { defineRoute, type Plane, type Route } from '../../http/route.ts';
import { hostError } from '../error-schema.ts';
import { readModelLoads } from './model-load.ts';
import type { RequestMetrics } from './request-metrics.ts';
import type { ServedCounters } from '../served-counters.ts';

export interface MetricsOptions {
  readonly served: ServedCounters;
  readonly resident: Resident;
  /** What the engine's requests did; undefined where nobody observes them. */
  readonly requests?: RequestMetrics | undefined;
  readonly version: string;
  /** Counts of agent work since startup, and open external sessions; undefined on a host without the agent plane. */
  readonly countWork?: (() => Promise<WorkCounts>) | undefined;
  readonly external?: LiveSessionSource | undefined;
  /** Further metric families; undefined where tracing is off. */
  readonly tracedMetrics?: { families(): readonly MetricFamily[] } | undefined;
}

/**
 * Timeout of each database query. Scrapers usually time out after ten seconds, and a hanging database must not prevent
 * the other metrics.
 */
const queryTimeoutMs = 2000;

/** Undefined where the promise fails or times out. */
async function withTimeout<Value>(query: Promise<Value> | undefined): Promise<Value | undefined> {
  if (!query) return undefined;
  const result = await raceTimeout(
    query.catch(() => undefined),
    queryTimeoutMs,
  );
  return result === 'late' ? undefined : result;
}

const metricsText = z.string().meta({ id: 'Metrics' });

/** Serves metrics in Prometheus' text format, version 0.0.4. */
export function metricsRoute(options: MetricsOptions): Route {
  return defineRoute({
    method: 'GET',
    path: '/metrics',
    operationId: 'getMetrics',
    summary: 'Get the metrics for Prometheus',
    responses: { 200: { description: 'Prometheus text format.', content: { 'text/plain': metricsText } } },
    async handle() {
      const families = [
        ...(await collectFamilies(options)),
        ...(options.requests?.families(readModelLoads(options.resident)) ?? []),
        ...(options.tracedMetrics?.families() ?? []),
      ];
      return new Response(formatExposition(families), {
        headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
      });
    },
  });
}

/** Metrics on the main listener, for scrapers on other machines. They need the bearer token, on loopback too. */
export function createMetricsPlane(options: MetricsOptions): Plane {
  return {
    name: 'metrics',
    summary: 'Metrics for Prometheus.',
    prefixes: ['/metrics'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    gate: 'bearer',
    routes: [metricsRoute(options)],
  };
}

async function collectFamilies(options: MetricsOptions): Promise<MetricFamily[]> {
  const { served, resident, version, countWork, external } = options;
  const { engine } = resident;
  const [counts, openSessions] = await Promise.all([
    withTimeout(countWork?.()),
    withTimeout(external?.live()),
  ]);
  const createSingle =
    (type: 'counter' | 'gauge') =>
    (name: string, help: string, value: number, labels: Labels = {}): MetricFamily => ({
      name,
      type,
      help,
      samples: [{ value, labels }],
    });
  const [counter, gauge] = [createSingle('counter'), createSingle('gauge')];
  return [
    gauge('lathe_info', 'The host.', 1, { version }),
    gauge(
      'lathe_start_time_seconds',
      'When the host started, in unix seconds.',
      served.since.getTime() / 1000,
    ),
    gauge('lathe_model_resident', 'Whether a model is resident.', engine ? 1 : 0),
    // Unknown where the database does not answer; the other metrics are served anyway.
    ...(openSessions
      ? [gauge('lathe_external_sessions', 'External sessions that are open.', openSessions.length)]
      : []),
    counter('lathe_completions_total', 'Completions served.', served.completions),
    ...(counts
      ? [
          counter('lathe_tasks_total', 'Agent tasks started.', counts.tasks),
          counter('lathe_workflow_runs_total', 'Workflow runs started.', counts.workflow_runs),
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
    counter('lathe_device_losses_total', 'Losses of the GPU.', countDeviceLosses(resident)),
  ];
}
