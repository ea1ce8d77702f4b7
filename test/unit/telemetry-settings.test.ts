import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/config/options.ts';
import { openTelemetry } from '../../src/telemetry/open.ts';
import { readTelemetrySettings } from '../../src/telemetry/settings.ts';

const endpoint = 'http://collector:4318';
const shared = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };

function faults(env: Record<string, string>, option?: string): readonly string[] {
  try {
    readTelemetrySettings(option, env);
  } catch (error) {
    if (error instanceof UsageError) return error.faults;
    throw error;
  }
  return [];
}

describe('nothing is exported', () => {
  test.each<[string, string | undefined, Record<string, string>]>([
    [
      'without a configured collector',
      undefined,
      { OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'never-read' },
    ],
    ['where the variable is empty', undefined, { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }],
    ['where all is disabled', endpoint, { ...shared, OTEL_SDK_DISABLED: 'True' }],
    [
      'where other exporters are asked for',
      endpoint,
      { OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'prometheus' },
    ],
  ])('%s', async (_, option, env) => {
    expect(readTelemetrySettings(option, env)).toBeUndefined();
    const rest = {
      version: '',
      instanceId: '',
      contentAllowed: () => false,
      redact: String,
      onNotice: () => {},
    };
    expect(await openTelemetry({ ...rest, endpoint: option, env })).toBeUndefined();
  });
});

describe('where signals go', () => {
  const urls = (option: string | undefined, env: Record<string, string>) => {
    const { traces, metrics } = readTelemetrySettings(option, env) ?? {};
    return [traces?.url, metrics?.url];
  };
  test('below the collector', () => {
    expect(urls(undefined, shared)).toEqual([`${endpoint}/v1/traces`, `${endpoint}/v1/metrics`]);
    expect(urls('https://c/otlp/?key=k', {})).toEqual([
      'https://c/otlp/v1/traces?key=k',
      'https://c/otlp/v1/metrics?key=k',
    ]);
  });
  test("the option replaces the common variable; a signal's own variable overrides both, unchanged", () => {
    expect(urls('http://option', shared)[0]).toBe('http://option/v1/traces');
    expect(urls('http://option', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://own/x' })).toEqual([
      'http://own/x',
      'http://option/v1/metrics',
    ]);
  });
  test('a signal without a collector is not exported', () => {
    expect(urls(undefined, { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://m/p' })).toEqual([
      undefined,
      'http://m/p',
    ]);
    expect(
      urls(undefined, { ...shared, OTEL_METRICS_EXPORTER: 'none', OTEL_TRACES_EXPORTER: 'console, otlp' }),
    ).toEqual([`${endpoint}/v1/traces`, undefined]);
  });
});

test('other settings have the defaults of the specification, and are read from their variables', () => {
  expect(readTelemetrySettings(endpoint, {})).toMatchObject({
    sampler: 'parentbased_always_on',
    ratio: 1,
    resource: {},
    traceDelayMs: 5000,
    metricIntervalMs: 60_000,
  });
  expect(
    readTelemetrySettings(endpoint, {
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
      OTEL_RESOURCE_ATTRIBUTES: ' a = b%20c ,service.name=x,,',
      OTEL_SERVICE_NAME: 'kitchen',
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_METRIC_EXPORT_INTERVAL: '1000',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%3Db',
    }),
  ).toMatchObject({
    traces: { headers: { 'api-key': 'a=b' } },
    sampler: 'parentbased_traceidratio',
    ratio: 0.25,
    resource: { a: 'b c', 'service.name': 'kitchen' },
    traceDelayMs: 100,
    metricIntervalMs: 1000,
  });
  // Only a sampler that takes a ratio reads one.
  expect(faults({ OTEL_TRACES_SAMPLER: 'always_on', OTEL_TRACES_SAMPLER_ARG: 'x' }, endpoint)).toEqual([]);
});

test('all faults are reported at once, each with its variable and never with its value', () => {
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318/hunter2',
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://me:hunter2@c',
    OTEL_EXPORTER_OTLP_HEADERS: 'hunter2,x=%zz,a b=hunter2,ok=hunter2%0A',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_SAMPLER: 'hunter2',
    OTEL_RESOURCE_ATTRIBUTES: '=hunter2',
    OTEL_BSP_SCHEDULE_DELAY: '0',
    OTEL_METRIC_EXPORT_INTERVAL: '1.5',
  };
  const found = faults(env);
  expect(found).toEqual([
    'OTEL_EXPORTER_OTLP_ENDPOINT: expected an http:// or https:// URL, such as http://localhost:4318',
    "OTEL_EXPORTER_OTLP_PROTOCOL: lathe sends OTLP over HTTP; set http/json, and name the collector's HTTP port (usually 4318)",
    'OTEL_EXPORTER_OTLP_HEADERS: entry 1: expected KEY=VALUE, percent-encoded',
    'OTEL_EXPORTER_OTLP_HEADERS: entry 2: expected KEY=VALUE, percent-encoded',
    'OTEL_EXPORTER_OTLP_HEADERS: entry 3: the name is not that of an HTTP header',
    'OTEL_EXPORTER_OTLP_HEADERS: entry 4: the value must be one line of plain characters',
    'OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: must not hold a user or password; OTEL_EXPORTER_OTLP_HEADERS takes an authorization header',
    `OTEL_TRACES_SAMPLER: expected one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio`,
    'OTEL_RESOURCE_ATTRIBUTES: entry 1: expected KEY=VALUE, percent-encoded',
    'OTEL_BSP_SCHEDULE_DELAY: expected whole milliseconds from 1 to 86400000',
    'OTEL_METRIC_EXPORT_INTERVAL: expected whole milliseconds from 1 to 86400000',
  ]);
  expect(found.join('\n')).not.toContain('hunter2');
  expect(faults({ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' })).toEqual([
    'OTEL_EXPORTER_OTLP_ENDPOINT: expected an http:// or https:// URL, such as http://localhost:4318',
  ]);
  expect(faults({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '1.5' }, endpoint)).toEqual([
    'OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1',
  ]);
});

test('no text in any variable makes it throw anything but a usage error', () => {
  const names = ['ENDPOINT', 'TRACES_ENDPOINT', 'HEADERS', 'PROTOCOL'].map(
    (name) => `OTEL_EXPORTER_OTLP_${name}`,
  );
  const all = [...names, 'OTEL_RESOURCE_ATTRIBUTES', 'OTEL_TRACES_SAMPLER_ARG', 'OTEL_BSP_SCHEDULE_DELAY'];
  const texts = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom('a', '=', ',', '%', '4', ':', '/') }),
  );
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...all), texts), (env) => {
      faults(env, endpoint);
    }),
  );
});
