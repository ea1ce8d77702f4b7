import { z } from 'zod';
import type { LiveRows } from '../../agent/services.ts';
import type { WorkCounts } from '../../agent/sessions/observed.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Route } from '../route.ts';
import type { Served } from '../served.ts';

export interface MetricsOptions {
  readonly served: Served;
  readonly resident: Resident;
  readonly version: string;
  /** Since start-up. */
  readonly countWork: () => Promise<WorkCounts>;
  readonly external: LiveRows;
}

interface Metric {
  readonly name: string;
  readonly type: 'counter' | 'gauge';
  readonly help: string;
  readonly value: number;
  readonly labels?: Readonly<Record<string, string>>;
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
      const text = (await metricsOf(options)).map(written).join('');
      return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } });
    },
  });
}

async function metricsOf(options: MetricsOptions): Promise<Metric[]> {
  const { served, resident, version, countWork, external } = options;
  const work = await countWork();
  const { engine } = resident;
  const counter = (name: string, help: string, value: number): Metric => ({
    name,
    help,
    value,
    type: 'counter',
  });
  return [
    { name: 'lathe_info', type: 'gauge', help: 'The host.', value: 1, labels: { version } },
    {
      name: 'lathe_start_time_seconds',
      type: 'gauge',
      help: 'When the host started, in unix seconds.',
      value: served.since.getTime() / 1000,
    },
    {
      name: 'lathe_model_resident',
      type: 'gauge',
      help: 'Whether a model is resident.',
      value: engine ? 1 : 0,
    },
    {
      name: 'lathe_external_sessions',
      type: 'gauge',
      help: 'External sessions that are open.',
      value: (await external.live()).length,
    },
    counter('lathe_completions_total', 'Completions served.', served.completions),
    counter('lathe_tasks_total', 'Agent tasks started.', work.tasks),
    counter('lathe_workflow_runs_total', 'Workflow runs started.', work.workflow_runs),
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

function written({ name, type, help, value, labels = {} }: Metric): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`);
  const of = pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name}${of} ${value}\n`;
}
