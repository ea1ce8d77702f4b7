import { UsageError } from '../config/usage.ts';
import { findCollectorUrlFault } from './collector-url.ts';
import { parsePairs } from './pairs.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Where a signal is exported to. */
export interface ExportDestination {
  readonly url: string;
  /** May hold an API key; never shown. */
  readonly headers: Readonly<Record<string, string>>;
}

export const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

export interface TelemetrySettings {
  /** At least one of `traces` and `metrics` is set. */
  readonly traces?: ExportDestination;
  readonly metrics?: ExportDestination;
  readonly sampler: (typeof samplers)[number];
  /** Sampling ratio of `traceidratio`, 0 to 1. */
  readonly ratio: number;
  readonly resource: Readonly<Record<string, string>>;
  readonly traceDelayMs: number;
  readonly metricIntervalMs: number;
}

const signals = [
  ['traces', 'TRACES'],
  ['metrics', 'METRICS'],
] as const;

/**
 * Reads OpenTelemetry's standard environment variables; undefined when no collector is named or telemetry is disabled.
 * @param endpoint the host's option, which replaces `OTEL_EXPORTER_OTLP_ENDPOINT`
 * @throws UsageError with every fault, without the values, because they may be secrets
 */
export function readTelemetrySettings(
  endpoint: string | undefined,
  env: Environment,
): TelemetrySettings | undefined {
  const reader = new EnvironmentReader(env);
  if (reader.text('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return undefined;
  const destinations = Object.fromEntries(
    signals.flatMap(([name, signal]) => {
      const destination = reader.destination(signal, endpoint);
      return destination ? [[name, destination]] : [];
    }),
  );
  if (Object.keys(destinations).length === 0 && reader.faults.length === 0) return undefined;
  const settings = {
    ...destinations,
    ...reader.sampler(),
    resource: reader.resource(),
    traceDelayMs: reader.milliseconds('OTEL_BSP_SCHEDULE_DELAY', 5000),
    metricIntervalMs: reader.milliseconds('OTEL_METRIC_EXPORT_INTERVAL', 60_000),
  };
  if (reader.faults.length > 0) throw new UsageError(reader.faults);
  return settings;
}

class EnvironmentReader {
  readonly faults: string[] = [];
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  /** An empty variable counts as unset, as the OpenTelemetry specification requires. */
  text(name: string): string | undefined {
    const value = this.#env[name]?.trim();
    return value === '' ? undefined : value;
  }

  destination(signal: 'TRACES' | 'METRICS', endpoint: string | undefined): ExportDestination | undefined {
    const exporters = this.text(`OTEL_${signal}_EXPORTER`);
    if (exporters !== undefined && !exporters.split(',').some((exporter) => exporter.trim() === 'otlp'))
      return undefined;
    const signalVariable = `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`;
    const sharedVariable = 'OTEL_EXPORTER_OTLP_ENDPOINT';
    if ((this.text(signalVariable) ?? endpoint ?? this.text(sharedVariable)) === undefined) return undefined;
    const url =
      this.text(signalVariable) === undefined
        ? appendPath(endpoint ?? this.#readUrl(sharedVariable), `v1/${signal.toLowerCase()}`)
        : this.#readUrl(signalVariable);
    this.#checkProtocol(signal);
    const headers = {
      ...this.#readHeaders('OTEL_EXPORTER_OTLP_HEADERS'),
      ...this.#readHeaders(`OTEL_EXPORTER_OTLP_${signal}_HEADERS`),
    };
    return url === undefined ? undefined : { url, headers };
  }

  sampler(): Pick<TelemetrySettings, 'sampler' | 'ratio'> {
    const name = this.text('OTEL_TRACES_SAMPLER');
    const sampler = name === undefined ? 'parentbased_always_on' : samplers.find((one) => one === name);
    if (sampler === undefined) this.#addFault(`OTEL_TRACES_SAMPLER: expected one of ${samplers.join(', ')}`);
    const arg = this.text('OTEL_TRACES_SAMPLER_ARG');
    const usesRatio = sampler?.endsWith('traceidratio') === true;
    const ratio = usesRatio && arg !== undefined ? Number(arg) : 1;
    if (!(ratio >= 0 && ratio <= 1)) this.#addFault('OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1');
    return { sampler: sampler ?? 'parentbased_always_on', ratio };
  }

  resource(): Record<string, string> {
    const name = this.text('OTEL_SERVICE_NAME');
    const pairs = this.#readPairs('OTEL_RESOURCE_ATTRIBUTES', () => undefined);
    return { ...pairs, ...(name === undefined ? {} : { 'service.name': name }) };
  }

  milliseconds(name: string, defaultMs: number): number {
    const text = this.text(name);
    if (text === undefined) return defaultMs;
    const value = Number(text);
    if (Number.isInteger(value) && value >= 1 && value <= 86_400_000) return value;
    this.#addFault(`${name}: expected whole milliseconds from 1 to 86400000`);
    return defaultMs;
  }

  #readUrl(name: string): string | undefined {
    const value = this.text(name);
    const fault = value === undefined ? undefined : findCollectorUrlFault(value);
    if (fault === undefined) return value;
    this.#addFault(`${name}: ${fault}`);
    return undefined;
  }

  /** Rejects gRPC. A collector that accepts Protobuf over HTTP accepts JSON too; gRPC uses another port. */
  #checkProtocol(signal: 'TRACES' | 'METRICS'): void {
    const signalVariable = `OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`;
    const name = this.text(signalVariable) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : signalVariable;
    if (this.text(name) === 'grpc')
      this.#addFault(
        `${name}: lathe sends OTLP over HTTP; set http/json, and name the collector's HTTP port (usually 4318)`,
      );
  }

  #readHeaders(name: string): Record<string, string> {
    return this.#readPairs(name, (header, value) => {
      if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(header)) return 'the name is not that of an HTTP header';
      return /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
        ? undefined
        : 'the value must be one line of plain characters';
    });
  }

  #readPairs(
    name: string,
    findFault: (key: string, value: string) => string | undefined,
  ): Record<string, string> {
    const { pairs, faults } = parsePairs(this.text(name) ?? '', findFault);
    for (const fault of faults) this.#addFault(`${name}: ${fault}`);
    return pairs;
  }

  /** Adds a fault once: both signals read some of the variables. */
  #addFault(text: string): void {
    if (!this.faults.includes(text)) this.faults.push(text);
  }
}

/** Appends the path of a signal to the collector URL. */
function appendPath(endpoint: string | undefined, path: string): string | undefined {
  if (endpoint === undefined) return undefined;
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`;
  return url.href;
}
