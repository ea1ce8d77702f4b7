import { UsageError } from '../config/usage.ts';
import { collectorUrlFault } from './collector-url.ts';
import { readPairs } from './pairs.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Where a signal is exported to. */
export interface Destination {
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
  readonly traces?: Destination;
  readonly metrics?: Destination;
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
  const reader = new Reader(env);
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

class Reader {
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

  destination(signal: 'TRACES' | 'METRICS', endpoint: string | undefined): Destination | undefined {
    const exporters = this.text(`OTEL_${signal}_EXPORTER`);
    if (exporters !== undefined && !exporters.split(',').some((one) => one.trim() === 'otlp'))
      return undefined;
    const own = `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`;
    const shared = 'OTEL_EXPORTER_OTLP_ENDPOINT';
    if ((this.text(own) ?? endpoint ?? this.text(shared)) === undefined) return undefined;
    const url =
      this.text(own) === undefined
        ? below(endpoint ?? this.#url(shared), `v1/${signal.toLowerCase()}`)
        : this.#url(own);
    this.#protocol(signal);
    const headers = {
      ...this.#headers('OTEL_EXPORTER_OTLP_HEADERS'),
      ...this.#headers(`OTEL_EXPORTER_OTLP_${signal}_HEADERS`),
    };
    return url === undefined ? undefined : { url, headers };
  }

  sampler(): Pick<TelemetrySettings, 'sampler' | 'ratio'> {
    const name = this.text('OTEL_TRACES_SAMPLER');
    const sampler = name === undefined ? 'parentbased_always_on' : samplers.find((one) => one === name);
    if (sampler === undefined) this.#fault(`OTEL_TRACES_SAMPLER: expected one of ${samplers.join(', ')}`);
    const arg = this.text('OTEL_TRACES_SAMPLER_ARG');
    const takesRatio = sampler?.endsWith('traceidratio') === true;
    const ratio = takesRatio && arg !== undefined ? Number(arg) : 1;
    if (!(ratio >= 0 && ratio <= 1)) this.#fault('OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1');
    return { sampler: sampler ?? 'parentbased_always_on', ratio };
  }

  resource(): Record<string, string> {
    const name = this.text('OTEL_SERVICE_NAME');
    const pairs = this.#pairs('OTEL_RESOURCE_ATTRIBUTES', () => undefined);
    return { ...pairs, ...(name === undefined ? {} : { 'service.name': name }) };
  }

  milliseconds(name: string, otherwise: number): number {
    const text = this.text(name);
    if (text === undefined) return otherwise;
    const value = Number(text);
    if (Number.isInteger(value) && value >= 1 && value <= 86_400_000) return value;
    this.#fault(`${name}: expected whole milliseconds from 1 to 86400000`);
    return otherwise;
  }

  #url(name: string): string | undefined {
    const value = this.text(name);
    const fault = value === undefined ? undefined : collectorUrlFault(value);
    if (fault === undefined) return value;
    this.#fault(`${name}: ${fault}`);
    return undefined;
  }

  /** Rejects gRPC. A collector that accepts Protobuf over HTTP accepts JSON too; gRPC uses another port. */
  #protocol(signal: 'TRACES' | 'METRICS'): void {
    const own = `OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`;
    const name = this.text(own) === undefined ? 'OTEL_EXPORTER_OTLP_PROTOCOL' : own;
    if (this.text(name) === 'grpc')
      this.#fault(
        `${name}: lathe sends OTLP over HTTP; set http/json, and name the collector's HTTP port (usually 4318)`,
      );
  }

  #headers(name: string): Record<string, string> {
    return this.#pairs(name, (header, value) => {
      if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(header)) return 'the name is not that of an HTTP header';
      return /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
        ? undefined
        : 'the value must be one line of plain characters';
    });
  }

  #pairs(name: string, check: (key: string, value: string) => string | undefined): Record<string, string> {
    const { pairs, faults } = readPairs(this.text(name) ?? '', check);
    for (const fault of faults) this.#fault(`${name}: ${fault}`);
    return pairs;
  }

  /** Adds a fault once: both signals read some of the variables. */
  #fault(text: string): void {
    if (!this.faults.includes(text)) this.faults.push(text);
  }
}

/** Appends the path of a signal to the collector URL. */
function below(endpoint: string | undefined, path: string): string | undefined {
  if (endpoint === undefined) return undefined;
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`;
  return url.href;
}
