import { expect, test } from 'vitest';
import { metricsRoute } from '../../src/planes/host/metrics.ts';
import { Resident } from '../../src/planes/resident.ts';
import { ServedCounters } from '../../src/planes/served-counters.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { Tracer } from '../../src/tracing/index.ts';
import { readPrometheus } from '../support/prometheus.ts';
import { routeServers } from '../support/serve-routes.ts';

const serve = routeServers();
const never = () => Promise.reject(new Error('not asked'));
const host = {
  served: new ServedCounters(),
  resident: new Resident('none', {
    find: never,
    isNameOfAnother: never,
    isSame: never,
    inspect: never,
    load: undefined,
  }),
  version: '1.0"\\\n',
  countWork: () => Promise.resolve({ tasks: 2, workflow_runs: 3 }),
  external: { live: () => Promise.resolve([]) },
};

test("the host's own counters, followed by the traced metrics, in one valid text", async () => {
  const watched = new Metrics();
  const { send } = await serve([metricsRoute({ ...host, tracedMetrics: watched })]);
  const read = async () => {
    const answer = await send('GET', '/metrics');
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    return readPrometheus(await answer.text());
  };
  const calls = async () => (await read()).get('lathe_tool_calls_total')?.samples ?? [];
  expect(await calls()).toEqual([]);
  const facts = { tool: 'say "hi"\\', agent: 'a', callId: 'c', toolKind: 'read' } as const;
  new Tracer([watched]).startSpan('tool', '1', facts).end({ outcome: 'ok' });
  expect(await calls()).toMatchObject([{ labels: { tool: 'say "hi"\\', outcome: 'ok' }, value: 1 }]);
  const families = await read();
  expect(families.get('lathe_info')?.samples[0]?.labels).toEqual({ version: '1.0"\\\n' });
  expect([...families.keys()]).toEqual(
    expect.arrayContaining([
      'lathe_info',
      'lathe_start_time_seconds',
      'lathe_model_resident',
      'lathe_external_sessions',
      'lathe_completions_total',
      'lathe_tasks_total',
      'lathe_workflow_runs_total',
      'lathe_measured_completions_total',
      'lathe_prompt_tokens_total',
      'lathe_completion_tokens_total',
      'lathe_device_losses_total',
      'lathe_completion_duration_seconds',
      'process_resident_memory_bytes',
    ]),
  );
  expect(families.get('lathe_tasks_total')).toMatchObject({ type: 'counter', samples: [{ value: 2 }] });
});

test('without tracing there are only the counters', async () => {
  const { send } = await serve([metricsRoute(host)]);
  const families = readPrometheus(await (await send('GET', '/metrics')).text());
  expect(families.size).toBe(11);
});

test('a database that hangs or fails removes only its own metrics', async () => {
  const hangs = { ...host, countWork: () => new Promise<never>(() => undefined) };
  const fails = { ...host, external: { live: () => Promise.reject(new Error('gone')) } };
  for (const [at, lost, kept] of [
    [hangs, 'lathe_tasks_total', 'lathe_external_sessions'],
    [fails, 'lathe_external_sessions', 'lathe_tasks_total'],
  ] as const) {
    const { send } = await serve([metricsRoute(at)]);
    const families = readPrometheus(await (await send('GET', '/metrics')).text());
    expect([families.has(lost), families.has(kept), families.has('lathe_completions_total')]).toEqual([
      false,
      true,
      true,
    ]);
  }
});
